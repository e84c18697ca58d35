/* SPDX-License-Identifier: Apache-2.0
 *
 * choices FOLDER SETTING...: for each setting a communicator of all ranks, which makes one all-gather and leaves its
 * trace in FOLDER/<number of the setting>. A setting is "config=PROFILE", "environment=PROFILE" or "cache". Rank 0
 * prints "made", or why the communicator could not be made.
 */
#define _POSIX_C_SOURCE 200112L

#include <lanecast/lanecast.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kCount = 1 << 16, kMostRanks = 8 };

static const char* after(const char* setting, const char* name) {
  const size_t length = strlen(name);
  return strncmp(setting, name, length) ? NULL : setting + length;
}

int main(int argc, char** argv) {
  float* in = calloc(kCount, sizeof(float));
  float* out = calloc((size_t)kCount * kMostRanks, sizeof(float));
  for (int k = 2; k < argc; ++k) {
    char folder[4096];
    lanecastError_t error = {""};
    lanecastConfig_t config = LANECAST_CONFIG_INITIALIZER;
    const char* variable = after(argv[k], "environment=");
    lanecastComm_t comm;
    int rank = -1;
    snprintf(folder, sizeof folder, "%s/%d", argv[1], k - 2);
    config.trace_dir = folder;
    config.profile = after(argv[k], "config=");
    config.error = &error;
    if (variable)
      setenv("LANECAST_PROFILE", variable, 1);
    else
      unsetenv("LANECAST_PROFILE");
    if (lanecastCommInitMPI(&comm, NULL, &config) != lanecastSuccess) {
      if (!after(error.text, "rank 0 refuses: ")) printf("%s\n", error.text);
      continue;
    }
    if (lanecastCommUserRank(comm, &rank) || lanecastAllGather(in, out, kCount, lanecastFloat32, comm)) return 1;
    if (rank == 0) printf("made\n");
    if (lanecastCommDestroy(comm)) return 1;
  }
  free(in);
  free(out);
  return 0;
}
