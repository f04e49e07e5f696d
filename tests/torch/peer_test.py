"""A part of PyTorch's own tests of back ends; with HOCKET_TEST_FULL=1 all of them, with 2, 3 and 4 ranks, beside gloo."""

import os
import sys

import launch
import peer

# One test of each kind of operation.
PART = ("test_all_reduce_sum or test_all_gather or test_all_to_all or test_barrier or test_broadcast or test_gather or "
        "test_reduce_scatter or test_scatter or test_send_recv_any_source or test_isend or test_ddp_comm_hook_future or "
        "test_DistributedDataParallel_requires_grad or test_all_gather_object")


class TorchPeer(launch.Case):
    def test_as_gloo(self):
        if not os.environ.get("HOCKET_TEST_FULL"):
            result = peer.run(sys.executable, "hocket", 2, select=PART)
            failed = {t: why for t, (outcome, why) in result["tests"].items() if outcome == "failed"}
            self.assertEqual(failed, {})
            self.assertGreater(sum(outcome == "passed" for outcome, _ in result["tests"].values()), 20)
            return
        for ranks, alias in ((2, False), (3, False), (4, True)):
            results = [peer.run(sys.executable, backend, ranks, alias) for backend in ("gloo", "hocket")]
            print("\n".join(map(peer.row, results)))
            self.assertEqual([(test, why) for _, _, test, (_, why) in peer.worse(results)], [])


if __name__ == "__main__":
    launch.main()
