// Facts about element types and operations. Names are those of nccl-tests ("half", "sum"). Any thread.
#pragma once

#include <cstddef>

#include "hocket/hocket.h"

namespace hocket {

[[nodiscard]] bool valid(hktDataType_t type);
[[nodiscard]] bool valid(hktRedOp_t op);
[[nodiscard]] size_t type_size(hktDataType_t type);       // bytes; 0 for what is no type
[[nodiscard]] const char* type_name(hktDataType_t type);  // "invalid" for what is no type
[[nodiscard]] const char* op_name(hktRedOp_t op);         // "invalid" for what is no operation

}  // namespace hocket
