#include "base/types.h"

namespace hocket {
namespace {

struct TypeFacts {
  const char* name;
  TypeClass kind;
};

constexpr const char* kInvalid = "invalid";

TypeFacts facts(hktDataType_t type) {
  switch (type) {
    case hktInt8:
      return {"int8", TypeClass::integer};
    case hktUint8:
      return {"uint8", TypeClass::integer};
    case hktInt16:
      return {"int16", TypeClass::integer};
    case hktUint16:
      return {"uint16", TypeClass::integer};
    case hktInt32:
      return {"int32", TypeClass::integer};
    case hktUint32:
      return {"uint32", TypeClass::integer};
    case hktInt64:
      return {"int64", TypeClass::integer};
    case hktUint64:
      return {"uint64", TypeClass::integer};
    case hktFloat16:
      return {"half", TypeClass::floating};
    case hktBfloat16:
      return {"bfloat16", TypeClass::floating};
    case hktFloat32:
      return {"float", TypeClass::floating};
    case hktFloat64:
      return {"double", TypeClass::floating};
    case hktFloat8e4m3:
      return {"f8e4m3", TypeClass::floating};
    case hktFloat8e5m2:
      return {"f8e5m2", TypeClass::floating};
    case hktBool:
      return {"bool", TypeClass::boolean};
    case hktComplex64:
      return {"complex64", TypeClass::complex};
    case hktComplex128:
      return {"complex128", TypeClass::complex};
  }
  return {kInvalid, TypeClass::none};
}

const char* why_not(TypeClass kind, hktRedOp_t op) {
  const bool takes_bits = kind == TypeClass::integer || kind == TypeClass::boolean;
  if (kind == TypeClass::none) return "there is no such type";
  switch (op) {
    case hktSum:
    case hktProd:
      return nullptr;
    case hktMax:
    case hktMin:
      return kind != TypeClass::complex ? nullptr
                                        : "complex numbers have no order, so min and max are not defined for them";
    case hktAvg:
      return kind != TypeClass::boolean ? nullptr : "the average of truth values is none; use a type of numbers";
    case hktBitAnd:
    case hktBitOr:
    case hktBitXor:
      return takes_bits ? nullptr : "bitwise operations are defined for integers and bool only";
    case hktLogicalAnd:
    case hktLogicalOr:
    case hktLogicalXor:
      return takes_bits ? nullptr : "logical operations are defined for integers and bool only";
    case hktRedOpLast:
      break;
  }
  return "there is no such operation";
}

}  // namespace

bool valid(hktDataType_t type) { return type_size(type) != 0; }

bool valid(hktRedOp_t op) { return static_cast<size_t>(op) < kOps; }  // without gaps

const char* type_name(hktDataType_t type) { return facts(type).name; }

TypeClass type_class(hktDataType_t type) { return facts(type).kind; }

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
    case hktBitAnd:
      return "band";
    case hktBitOr:
      return "bor";
    case hktBitXor:
      return "bxor";
    case hktLogicalAnd:
      return "land";
    case hktLogicalOr:
      return "lor";
    case hktLogicalXor:
      return "lxor";
    case hktRedOpLast:
      break;
  }
  return kInvalid;
}

const char* unreproducible(hktDataType_t type, hktRedOp_t op) {
  const TypeClass kind = type_class(type);
  if (kind != TypeClass::floating && kind != TypeClass::complex) return nullptr;
  switch (op) {
    case hktProd:
      return "products of floats round at every step, in the order of the ranks";
    case hktSum:
    case hktAvg:
      return type_size(type) > 1 ? nullptr : "8-bit floats saturate and have no sum that is independent of the order";
    default:
      return nullptr;
  }
}

const char* unsupported(hktDataType_t type, hktRedOp_t op) { return why_not(facts(type).kind, op); }

}  // namespace hocket
