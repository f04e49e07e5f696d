#include "base/types.h"

namespace hocket {
namespace {

struct TypeFacts {
  size_t size;
  const char* name;
};

constexpr TypeFacts kNoType = {0, "invalid"};

TypeFacts facts(hktDataType_t type) {
  switch (type) {
    case hktInt8:
      return {1, "int8"};
    case hktUint8:
      return {1, "uint8"};
    case hktInt16:
      return {2, "int16"};
    case hktUint16:
      return {2, "uint16"};
    case hktInt32:
      return {4, "int32"};
    case hktUint32:
      return {4, "uint32"};
    case hktInt64:
      return {8, "int64"};
    case hktUint64:
      return {8, "uint64"};
    case hktFloat16:
      return {2, "half"};
    case hktBfloat16:
      return {2, "bfloat16"};
    case hktFloat32:
      return {4, "float"};
    case hktFloat64:
      return {8, "double"};
  }
  return kNoType;
}

}  // namespace

bool valid(hktDataType_t type) { return facts(type).size != 0; }

bool valid(hktRedOp_t op) {
  switch (op) {
    case hktSum:
    case hktProd:
    case hktMax:
    case hktMin:
    case hktAvg:
      return true;
  }
  return false;
}

size_t type_size(hktDataType_t type) { return facts(type).size; }

const char* type_name(hktDataType_t type) { return facts(type).name; }

const char* op_name(hktRedOp_t op) {
  switch (op) {
    case hktSum:
      return "sum";
    case hktProd:
      return "prod";
    case hktMax:
      return "max";
    case hktMin:
      return "min";
    case hktAvg:
      return "avg";
  }
  return kNoType.name;
}

}  // namespace hocket
