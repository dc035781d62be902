// Codes and sums back to numbers on vectors. Included once per Highway target, inside its
// namespace, after levels_encode-inl.h: no guard, and it does not compile alone.

// One vector of codes, cut to what the table has.
HWY_INLINE VWord LoadCodes(const std::uint8_t* codes, VWord last) {
  const hn::Rebind<std::uint8_t, DWord> d;
  return hn::And(hn::PromoteTo(kDWord, hn::LoadU(d, codes)), last);
}

size_t ValuesWhole(const Quantiser& quantiser, const std::uint8_t* codes, float unit,
                   std::span<float> into) {
  const float* table = quantiser.centred.data();
  const VWord last = hn::Set(kDWord, static_cast<std::uint32_t>(quantiser.table.size() - 1));
  const V units = hn::Set(kD, unit);
  size_t i = 0;
  if (quantiser.table.size() <= 16) {
    const HeldTable<16> held(table);
    for (; i + kLanes <= into.size(); i += kLanes) {
      const V value = held.At(LoadCodes(codes + i, last));
      hn::StoreU(hn::Mul(value, units), kD, into.data() + i);
    }
  }
  for (; i + kLanes <= into.size(); i += kLanes) {
    const auto index = hn::BitCast(kDInt, LoadCodes(codes + i, last));
    hn::StoreU(hn::Mul(hn::GatherIndex(kD, table, index), units), kD, into.data() + i);
  }
  return i;
}

size_t MeansWhole(const std::int32_t* twice_sums, std::int32_t centre, float unit,
                  std::span<float> into) {
  const VInt centres = hn::Set(kDInt, centre);
  const V units = hn::Set(kD, unit);
  size_t i = 0;
  for (; i + kLanes <= into.size(); i += kLanes) {
    const VInt difference = hn::Sub(hn::LoadU(kDInt, twice_sums + i), centres);
    hn::StoreU(hn::Mul(hn::ConvertTo(kD, difference), units), kD, into.data() + i);
  }
  return i;
}
