// fmt's compiled part, inside our libraries: Debian has it only as libfmt.so, and fmt's header-only
// mode costs 2.6 seconds for every file that formats. These are the instantiations of fmt 9's own
// src/format.cc, for char. cmake/library.cmake gives it a namespace of its own, so that a program
// which also uses libfmt has two sets of names.
#include <fmt/format-inl.h>

#if FMT_VERSION / 10000 != 9
#error "written for fmt 9; configure with -DSLUICE_FMT_HEADER_ONLY=ON"
#endif

FMT_BEGIN_NAMESPACE
namespace detail {

template auto dragonbox::to_decimal(float x) noexcept -> dragonbox::decimal_fp<float>;
template auto dragonbox::to_decimal(double x) noexcept -> dragonbox::decimal_fp<double>;
template locale_ref::locale_ref(const std::locale& loc);
template auto locale_ref::get<std::locale>() const -> std::locale;
template auto thousands_sep_impl(locale_ref) -> thousands_sep_result<char>;
template auto decimal_point_impl(locale_ref) -> char;
template void buffer<char>::append(const char*, const char*);
template void vformat_to(buffer<char>&, string_view,
                         basic_format_args<FMT_BUFFER_CONTEXT(char)>, locale_ref);

}  // namespace detail
FMT_END_NAMESPACE
