// What a chunk of tide takes on a device, ahead of the widths that its blocks will have.
#pragma once

#include "codec/codec.h"
#include "codec/tide/tide_settings.h"

namespace sluice::tide {

// Codec::device_needs of a codec with these settings. Rounds have TideSettings::room_bits a lane:
// blocks with more, and blocks that travel exactly, are not in it.
DeviceNeeds device_needs(const TideSettings& settings, const Extent& extent, bool keeps);

}  // namespace sluice::tide
