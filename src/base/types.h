// Facts about element types and operations. Names are those of nccl-tests ("half", "sum") as far as it has them. Any
// thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "hocket/hocket.h"

namespace hocket {

// Lengths of arrays indexed by a type or an operation: one past the largest value.
inline constexpr size_t kTypes = hktComplex128 + 1;
inline constexpr size_t kOps = hktLogicalXor + 1;

// Every type and operation, in the order in which they are listed to people.
inline constexpr std::array kAllTypes = {hktInt8,      hktUint8,     hktInt16,      hktUint16,     hktInt32,
                                         hktUint32,    hktInt64,     hktUint64,     hktFloat16,    hktBfloat16,
                                         hktFloat32,   hktFloat64,   hktFloat8e4m3, hktFloat8e5m2, hktBool,
                                         hktComplex64, hktComplex128};
inline constexpr std::array kAllOps = {hktSum,   hktProd,   hktMax,        hktMin,       hktAvg,       hktBitAnd,
                                       hktBitOr, hktBitXor, hktLogicalAnd, hktLogicalOr, hktLogicalXor};

enum class TypeClass : uint8_t { none, integer, boolean, floating, complex };

// Bytes of a type; 0 for what is none. Here because every call asks for it.
[[nodiscard]] constexpr size_t type_size(hktDataType_t type) {
  constexpr std::array<uint8_t, kTypes> kSizes = [] {
    std::array<uint8_t, kTypes> sizes{};
    for (const hktDataType_t t : {hktInt8, hktUint8, hktFloat8e4m3, hktFloat8e5m2, hktBool}) sizes[t] = 1;
    for (const hktDataType_t t : {hktInt16, hktUint16, hktFloat16, hktBfloat16}) sizes[t] = 2;
    for (const hktDataType_t t : {hktInt32, hktUint32, hktFloat32}) sizes[t] = 4;
    for (const hktDataType_t t : {hktInt64, hktUint64, hktFloat64, hktComplex64}) sizes[t] = 8;
    sizes[hktComplex128] = 16;
    return sizes;
  }();
  return static_cast<size_t>(type) < kTypes ? kSizes[type] : 0;
}

[[nodiscard]] bool valid(hktDataType_t type);
[[nodiscard]] bool valid(hktRedOp_t op);
[[nodiscard]] const char* type_name(hktDataType_t type);  // "invalid" for what is no type
[[nodiscard]] TypeClass type_class(hktDataType_t type);   // none for what is no type
[[nodiscard]] const char* op_name(hktRedOp_t op);         // "invalid" for what is no operation

// Null if elements of the type can be reduced by the operation, else why not: a clause without a full stop, static.
[[nodiscard]] const char* unsupported(hktDataType_t type, hktRedOp_t op);

// Of a type and operation that are supported: null if the result is independent of the order and the number of the
// operands, or can be made so (sums; kernels/reproducible.h), else why not: as above.
[[nodiscard]] const char* unreproducible(hktDataType_t type, hktRedOp_t op);

}  // namespace hocket
