// Which launcher started this process: environments as the launchers leave them, alone and within one another.
#include <gtest/gtest.h>

#include <set>

#include <string>

#include "bootstrap/identity.h"
#include "bootstrap/launchers.h"
#include "unit/environment.h"

namespace hocket {
namespace {

Variables operator+(Variables a, const Variables& b) {
  for (const auto& [name, value] : b) a[name] = value;
  return a;
}

const Variables kTorchrun = {{"RANK", "3"},
                             {"WORLD_SIZE", "4"},
                             {"LOCAL_RANK", "1"},
                             {"MASTER_ADDR", "10.0.0.1"},
                             {"MASTER_PORT", "29500"},
                             {"TORCHELASTIC_RUN_ID", "job7"},
                             {"TORCHELASTIC_RESTART_COUNT", "2"},
                             {"TORCHELASTIC_USE_AGENT_STORE", "True"}};
const Variables kOpenMpi = {{"OMPI_COMM_WORLD_RANK", "1"},
                            {"OMPI_COMM_WORLD_SIZE", "4"},
                            {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                            {"PMIX_RANK", "1"},
                            {"PMIX_NAMESPACE", "n"}};
const Variables kHydra = {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"PMI_FD", "7"}, {"MPI_LOCALRANKID", "0"}};
const Variables kHydraPort = {{"PMI_PORT", "node0:4000"}, {"PMI_ID", "2"}};
const Variables kPmixOnly = {{"PMIX_RANK", "1"}, {"PMIX_NAMESPACE", "n"}};
const Variables kSlurm = {
    {"SLURM_STEP_ID", "0"},          {"SLURM_PROCID", "2"},  {"SLURM_NTASKS", "4"}, {"SLURM_NPROCS", "4"},
    {"SLURM_LOCALID", "0"},          {"SLURM_JOB_ID", "12"}, {"SLURM_NODEID", "1"}, {"SLURM_STEP_NODELIST", "n[1-2]"},
    {"SLURM_JOB_NODELIST", "n[1-3]"}};
const Variables kHorovod = {{"HOROVOD_RANK", "1"},
                            {"HOROVOD_SIZE", "2"},
                            {"HOROVOD_LOCAL_RANK", "0"},
                            {"HOROVOD_GLOO_RENDEZVOUS_ADDR", "10.0.0.9"},
                            {"HOROVOD_GLOO_RENDEZVOUS_PORT", "5000"}};
const Variables kMsrun = {{"MS_ROLE", "MS_WORKER"},
                          {"MS_WORKER_NUM", "2"},
                          {"MS_NODE_ID", "1"},
                          {"MS_SCHED_HOST", "10.0.0.3"},
                          {"MS_SCHED_PORT", "8118"}};
const Variables kModelArts = {{"MA_NUM_HOSTS", "2"},
                              {"MA_TASK_INDEX", "1"},
                              {"VC_TASK_INDEX", "1"},
                              {"VC_WORKER_HOSTS", "job-worker-0.job,job-worker-1.job"}};
const Variables kIndexedJob = {
    {"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "job-0.svc"}, {"MASTER_PORT", "29500"}};

struct Expected {
  std::string launcher;
  int rank, nranks, local_rank;
  std::string place;  // a URL, or the kind of place
};

std::string in_words(const Identity& me) {
  if (!me.url.empty()) return me.url;
  if (const auto* t = std::get_if<TorchPlace>(&me.place))
    return "torch " + t->store.host + ":" + std::to_string(t->store.port) + " " + t->job;
  if (const auto* p = std::get_if<PmiPlace>(&me.place))
    return p->fd >= 0 ? "pmi fd " + std::to_string(p->fd)
                      : "pmi " + p->server.host + ":" + std::to_string(p->server.port) + " " + std::to_string(p->id);
  if (std::holds_alternative<PmixPlace>(me.place)) return "pmix";
  if (const auto* h = std::get_if<HorovodPlace>(&me.place))
    return "horovod " + h->server.host + ":" + std::to_string(h->server.port);
  if (const auto* s = std::get_if<SearchPlace>(&me.place)) {
    std::string out = s->job;
    for (const std::string& host : s->hosts) out += " " + host;
    return out;
  }
  return "none";
}

TEST(Launchers, EachAloneAndTheInnermostOfSeveral) {
  const struct {
    Variables variables;
    Expected expected;
  } cases[] = {
      {kTorchrun, {"torchrun", 3, 4, 1, "torch 10.0.0.1:29500 job7/2"}},
      {kTorchrun + Variables{{"TORCHELASTIC_USE_AGENT_STORE", "False"}}, {"torchrun", 3, 4, 1, "tcp://10.0.0.1:29500"}},
      {kOpenMpi, {"Open MPI", 1, 4, 1, "pmix"}},
      {kHydra, {"PMI", 2, 4, 0, "pmi fd 7"}},
      {kHydraPort, {"PMI", -1, -1, -1, "pmi node0:4000 2"}},
      {kPmixOnly, {"PMIx", 1, -1, -1, "pmix"}},
      {kSlurm, {"Slurm", 2, 4, 0, "Slurm step 12.0 n1 n2 n3"}},
      {kSlurm + Variables{{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "999"}}, {"Slurm", 2, 4, 0, "tcp://n1:999"}},
      {kHorovod, {"Horovod", 1, 2, 0, "horovod 10.0.0.9:5000"}},
      {kMsrun, {"msrun", 1, 2, -1, "tcp://10.0.0.3:8119"}},
      {kModelArts, {"ModelArts", 1, 2, -1, "tcp://job-worker-0.job:29500"}},
      {kIndexedJob, {"a Kubernetes indexed job", 1, 2, -1, "tcp://job-0.svc:29500"}},
      // torchrun under srun, mpirun inside an allocation (all ranks of a node have one SLURM_PROCID), horovodrun too
      {kSlurm + kTorchrun, {"torchrun", 3, 4, 1, "torch 10.0.0.1:29500 job7/2"}},
      {kSlurm + kOpenMpi, {"Open MPI", 1, 4, 1, "pmix"}},
      {kSlurm + kHydra, {"PMI", 2, 4, 0, "pmi fd 7"}},
      {kOpenMpi + kTorchrun, {"torchrun", 3, 4, 1, "torch 10.0.0.1:29500 job7/2"}},
      {kSlurm + kHorovod, {"Horovod", 1, 2, 0, "horovod 10.0.0.9:5000"}},
      {kModelArts + kOpenMpi, {"Open MPI", 1, 4, 1, "pmix"}},
      // What the outer one left in disorder is of no matter.
      {kSlurm + Variables{{"SLURM_NPROCS", "9"}} + kOpenMpi, {"Open MPI", 1, 4, 1, "pmix"}},
      // RANK and WORLD_SIZE copied from Slurm's: Slurm says where to meet.
      {kSlurm + Variables{{"RANK", "2"}, {"WORLD_SIZE", "4"}},
       {"RANK and WORLD_SIZE", 2, 4, 0, "Slurm step 12.0 n1 n2 n3"}},
      // Exported for another program's sake, and the same.
      {kSlurm + Variables{{"WORLD_SIZE", "4"}}, {"Slurm", 2, 4, 0, "Slurm step 12.0 n1 n2 n3"}},
  };
  for (const auto& c : cases) {
    const auto me = parse_url("env://", with(c.variables));
    ASSERT_TRUE(me) << c.expected.launcher << ": " << me.error().text;
    EXPECT_EQ(me.value().launcher, c.expected.launcher);
    EXPECT_EQ(me.value().rank, c.expected.rank) << c.expected.launcher;
    EXPECT_EQ(me.value().nranks, c.expected.nranks) << c.expected.launcher;
    EXPECT_EQ(me.value().local_rank, c.expected.local_rank) << c.expected.launcher;
    EXPECT_EQ(in_words(me.value()), c.expected.place) << c.expected.launcher;
  }
}

TEST(Launchers, AUrlTakesRankAndSizeFromTheLauncher) {
  const auto me = parse_url("tcp://node0:80", with(kSlurm + kOpenMpi));
  ASSERT_TRUE(me) << me.error().text;
  EXPECT_EQ(me.value().rank, 1);
  EXPECT_EQ(me.value().nranks, 4);
  EXPECT_EQ(in_words(me.value()), "tcp://node0:80");
  EXPECT_EQ(parse_url("file:///tmp/x?rank=0", with(kSlurm)).value().rank, 0);
}

TEST(Launchers, WhatContradictsItselfShowsBothValues) {
  const struct {
    Variables variables;
    std::string text;
  } cases[] = {
      {kOpenMpi + Variables{{"PMIX_RANK", "2"}},
       "environment variable OMPI_COMM_WORLD_RANK is 1, but environment variable PMIX_RANK is 2: both are of Open MPI"},
      {kOpenMpi + kHydra,
       "environment variable OMPI_COMM_WORLD_RANK is 1, but environment variable PMI_RANK is 2: both are of one MPI "
       "launcher and must say the same: unset the one that was left over"},
      {kSlurm + Variables{{"SLURM_NPROCS", "8"}},
       "environment variable SLURM_NTASKS is 4, but environment variable SLURM_NPROCS is 8: both are of Slurm"},
      {kSlurm + Variables{{"SLURM_PROCID", "4"}},
       "SLURM_PROCID is 4, but environment variable SLURM_NTASKS is 4: ranks"},
      {kSlurm + Variables{{"SLURM_PROCID", "x"}}, "environment variable SLURM_PROCID is 'x': set it to a whole number"},
      {kSlurm + Variables{{"WORLD_SIZE", "8"}},
       "environment variable WORLD_SIZE is 8, but environment variable SLURM_NTASKS is 4: set both RANK and "
       "WORLD_SIZE"},
      {kOpenMpi + Variables{{"RANK", "0"}},
       "environment variable RANK is 0, but environment variable OMPI_COMM_WORLD_RANK"},
      {kSlurm + Variables{{"SLURM_STEP_NODELIST", "n[1-"}},
       "SLURM_STEP_NODELIST: the list of hosts 'n[1-' does not parse"},
      {kSlurm + Variables{{"MASTER_PORT", "80"}}, "environment variable MASTER_PORT is set, but MASTER_ADDR is not"},
      {kMsrun + Variables{{"MS_ROLE", "MS_SCHED"}}, "MS_ROLE is 'MS_SCHED': this process is msrun's scheduler"},
      {kMsrun + Variables{{"RANK_ID", "0"}},
       "RANK_ID is 0, but environment variable MS_NODE_ID is 1: both are of msrun"},
      {kMsrun + Variables{{"MS_SCHED_PORT", "65535"}}, "MS_SCHED_PORT is 65535: rank 0 takes the port behind it"},
      {kHydraPort + Variables{{"PMI_ID", ""}}, "PMI_PORT is set, but PMI_ID is not"},
      {kHydraPort + Variables{{"PMI_PORT", "x"}}, "PMI_PORT is 'x': expected is HOST:PORT"},
      {kModelArts + Variables{{"VC_MASTER_HOSTS", "m"}},
       "has the tasks master and worker, and VC_TASK_INDEX counts in"},
      {{{"JOB_COMPLETION_INDEX", "1"}},
       "environment variable WORLD_SIZE (the number of processes of the job) is not set"},
      {{{"JOB_COMPLETION_INDEX", "1"}, {"WORLD_SIZE", "2"}},
       "this process is rank 1 of 2 of a Kubernetes indexed job, which does not say where its ranks can meet: set "
       "MASTER_ADDR"},
      {kTorchrun + Variables{{"MASTER_ADDR", ""}, {"MASTER_PORT", ""}},
       "where torchrun's agent serves its store, are not"},
      {kTorchrun + Variables{{"LOCAL_RANK", "x"}}, "environment variable LOCAL_RANK is 'x'"},
  };
  for (const auto& c : cases) {
    const auto me = parse_url("env://", with(c.variables));
    ASSERT_FALSE(me) << c.text;
    EXPECT_NE(me.error().text.find(c.text), std::string::npos) << me.error().text << "\nlacks: " << c.text;
    EXPECT_EQ(me.error().text.find('\n'), std::string::npos);
  }
}

TEST(Launchers, ABatchScriptIsNoTask) {
  const auto script = parse_url("env://", with({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}, {"SLURM_JOB_ID", "1"}}));
  ASSERT_FALSE(script);
  EXPECT_EQ(script.error().text.find("Slurm"), std::string::npos) << script.error().text;
}

TEST(Launchers, TheStoryNamesTheTakenAndTheOthers) {
  const auto claim = find_launcher(with(kSlurm + kOpenMpi));
  ASSERT_TRUE(claim && claim.value().has_value());
  EXPECT_EQ(claim.value()->story,
            "launched by Open MPI (rank 1 of 4: environment variable OMPI_COMM_WORLD_RANK); not used: Slurm (rank 2 of "
            "4: environment variable SLURM_PROCID)");
}

TEST(Launchers, TwoStepsOfAJobDoNotMeet) {
  const auto place = [](const Variables& variables) {
    return std::get<SearchPlace>(parse_url("env://", with(variables)).value().place);
  };
  const SearchPlace first = place(kSlurm), second = place(kSlurm + Variables{{"SLURM_STEP_ID", "1"}});
  EXPECT_NE(first.nonce, second.nonce);
  EXPECT_NE(first.ports, second.ports);
  EXPECT_EQ(first.nonce, place(kSlurm + Variables{{"SLURM_PROCID", "0"}}).nonce);
  EXPECT_EQ(place(kSlurm + Variables{{"SLURM_STEP_RESV_PORTS", "12000-12001"}}).ports,
            (std::vector<uint16_t>{12000, 12001}));
}

TEST(Launchers, RankZeroOfASlurmStepIsLookedForAtPortsOfTheJob) {
  const auto ports = [](const Variables& more) {
    return std::get<SearchPlace>(parse_url("env://", with(kSlurm + more)).value().place).ports;
  };
  EXPECT_EQ(ports({{"HOCKET_PORT_RANGE", "400-401,500"}}), (std::vector<uint16_t>{400, 401, 500}));
  for (const char* name : {"HOCKET_PORT_RANGE", "HCCL_HOST_SOCKET_PORT_RANGE"}) {
    for (const char* step : {"0", "1", "2", "3"}) {
      const std::vector<uint16_t> some = ports({{name, "40000-40009"}, {"SLURM_STEP_ID", step}});
      ASSERT_EQ(some.size(), 4u);
      for (const uint16_t port : some) EXPECT_TRUE(port >= 40000 && port <= 40009) << port;
      EXPECT_EQ(std::set<uint16_t>(some.begin(), some.end()).size(), 4u);
    }
  }
  // What the job says goes before what Slurm has reserved.
  EXPECT_EQ(ports({{"HOCKET_PORT_RANGE", "400"}, {"SLURM_STEP_RESV_PORTS", "12000-12001"}}),
            std::vector<uint16_t>{400});
  EXPECT_EQ(ports({{"HOCKET_PORT_RANGE", "auto"}, {"SLURM_STEP_RESV_PORTS", "12000"}}), std::vector<uint16_t>{12000});
  const auto bad = parse_url("env://", with(kSlurm + Variables{{"HOCKET_PORT_RANGE", "9-8"}}));
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().text,
            "environment variable HOCKET_PORT_RANGE is '9-8': set it to ports such as 60000-60050,60100, or auto");
}

TEST(Lists, HostsAsSlurmWritesThem) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(expand_host_list("n1").value(), Names({"n1"}));
  EXPECT_EQ(expand_host_list("n1,m").value(), Names({"n1", "m"}));
  EXPECT_EQ(expand_host_list("n[1-2]").value(), Names({"n1", "n2"}));
  EXPECT_EQ(expand_host_list("n[1-3,5],gpu[01-03]").value(),
            Names({"n1", "n2", "n3", "n5", "gpu01", "gpu02", "gpu03"}));
  EXPECT_EQ(expand_host_list("gpu[098-101]-ib").value(), Names({"gpu098-ib", "gpu099-ib", "gpu100-ib", "gpu101-ib"}));
  EXPECT_EQ(expand_host_list("r[1-2]n[1-2]").value(), Names({"r1n1", "r1n2", "r2n1", "r2n2"}));
  for (const char* bad :
       {"", ",", "n1,", "n[", "n]", "n[]", "n[1-]", "n[-1]", "n[2-1]", "n[1", "n[1,]", "n[a-b]", "n[[1]]",
        "n[1-99999999]", "a[1-9999]b[1-9999]", "n[99999999999]", "a[1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2][1-2]"}) {
    const auto hosts = expand_host_list(bad);
    ASSERT_FALSE(hosts) << bad;
    EXPECT_NE(hosts.error().text.find("does not parse"), std::string::npos) << hosts.error().text;
  }
}

TEST(Lists, TasksPerNodeAsSlurmWritesThem) {
  EXPECT_EQ(expand_task_counts("3").value(), std::vector<int>({3}));
  EXPECT_EQ(expand_task_counts("8(x2),4").value(), std::vector<int>({8, 8, 4}));
  EXPECT_EQ(expand_task_counts("3,1").value(), std::vector<int>({3, 1}));
  for (const char* bad : {"", "x", "8(x", "8(x0)", "8(x2", "8(y2)", "-1", "1,", "1(x2)(x3)", "1(x99999999)"})
    EXPECT_FALSE(expand_task_counts(bad)) << bad;
}

}  // namespace
}  // namespace hocket
