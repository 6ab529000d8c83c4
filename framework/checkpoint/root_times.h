// libhdf5 1.10 writes the second of a file's making into the header of its root group, whatever it
// is told. Equal checkpoints shall be equal files: the four times become 0.
#pragma once

#include "framework/base/files.h"

namespace trireme {

// Of a file that libhdf5 has closed. Changes nothing where there are no such times, or where the
// header's checksum (Jenkins' lookup3, HDF5 file format specification IV.A.1.b) is not as expected.
void forget_root_times(File& file);

}  // namespace trireme
