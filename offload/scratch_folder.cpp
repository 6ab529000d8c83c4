#include "offload/scratch_folder.h"
