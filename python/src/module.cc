// The extension module hocket._torch.
#include <pybind11/chrono.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/version.h>

#include "backend.h"

namespace py = pybind11;
using namespace hocket::pg;  // NOLINT: this file is the bridge between the two worlds

PYBIND11_MODULE(_torch, m) {
  py::module_::import("torch._C._distributed_c10d");  // has the base classes

  py::class_<HocketBackend, c10d::Backend, c10::intrusive_ptr<HocketBackend>>(
      m, "HocketBackend", "A process group's communicator. Made by torch.distributed.init_process_group('hocket').");

  py::class_<HocketOptions, c10d::Backend::Options, c10::intrusive_ptr<HocketOptions>>(
      m, "Options", "Settings of a process group: init_process_group('hocket', pg_options=Options(...)).")
      .def(py::init([](const std::string& transport, int64_t determinism) {
             auto options = c10::make_intrusive<HocketOptions>();
             options->transport = transport;
             options->determinism = determinism;
             return options;
           }),
           py::arg("transport") = "", py::arg("determinism") = 0)
      .def("__copy__", [](const HocketOptions& o) { return c10::make_intrusive<HocketOptions>(o); })
      .def("__deepcopy__",
           [](const HocketOptions& o, const py::dict&) { return c10::make_intrusive<HocketOptions>(o); })
      .def_readwrite("transport", &HocketOptions::transport,
                     "'auto', 'shm' or 'tcp', the same on all ranks; '': HOCKET_TRANSPORT, or auto")
      .def_readwrite("determinism", &HocketOptions::determinism,
                     "1 to 4: what the bits of a reduction may depend on (docs/determinism.md); 0: HOCKET_DETERMINISM");

  m.def("create", torch::wrap_pybind_function_no_gil(HocketBackend::create), py::arg("about"), py::arg("options"),
        "The back end that torch calls for; blocks until all ranks of the group are there.");
  m.def(
      "stop", [] { Progress::get().stop(); }, py::call_guard<py::gil_scoped_release>(),
      "Ends the threads that move what is outstanding: the process ends.");
  m.attr("torch_version") = TORCH_VERSION;
}
