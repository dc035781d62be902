#include "carrier/mpi/launch.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

namespace sluice::mpi {
namespace {

using Variables = std::map<std::string, std::string>;

Environment as_environment(const Variables& variables) {
  return [&variables](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  };
}

// As each launcher sets them for rank 1 of 4.
const Variables kMpirun{{"OMPI_COMM_WORLD_SIZE", "4"}, {"PMIX_RANK", "1"}};
const Variables kSrunPmix{{"PMIX_RANK", "1"},
                          {"SLURM_PROCID", "1"},
                          {"SLURM_STEP_ID", "0"},
                          {"SLURM_STEP_NUM_TASKS", "4"}};
const Variables kSrunPmi2{{"PMI_RANK", "1"},     {"PMI_SIZE", "4"},      {"PMI_FD", "9"},
                          {"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "4"}};
const Variables kSrunPmi1{
    {"SLURM_PROCID", "1"}, {"SLURM_STEP_ID", "0"}, {"SLURM_STEP_NUM_TASKS", "4"}};
const Variables kHydra{{"PMI_RANK", "1"}, {"PMI_SIZE", "4"}, {"PMI_FD", "9"}};

TEST(MpiLaunch, EveryLauncherIsKnown) {
  for (const Variables& variables : {kMpirun, kSrunPmix, kSrunPmi2, kSrunPmi1, kHydra}) {
    EXPECT_TRUE(is_launched(as_environment(variables)));
    const auto claim = claim_of(as_environment(variables));
    ASSERT_TRUE(claim.has_value());
    EXPECT_EQ(claim->workers, 4u);
  }
}

TEST(MpiLaunch, AShellOrABatchScriptIsNoLauncher) {
  const Variables shell{{"HOME", "/root"}};
  const Variables script{{"SLURM_JOB_ID", "7"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "4"}};
  for (const Variables& variables : {shell, script}) {
    EXPECT_FALSE(is_launched(as_environment(variables)));
    EXPECT_FALSE(claim_of(as_environment(variables)).has_value());
    EXPECT_TRUE(check_claim(as_environment(variables), 1));
  }
}

TEST(MpiLaunch, MpirunIsBelievedBeforeTheStepItRunsIn) {
  Variables variables = kMpirun;
  variables["SLURM_PROCID"] = "0";
  variables["SLURM_STEP_ID"] = "0";
  variables["SLURM_STEP_NUM_TASKS"] = "2";  // two machines, a daemon each
  variables["PMI_SIZE"] = "2";
  const auto claim = claim_of(as_environment(variables));
  ASSERT_TRUE(claim.has_value());
  EXPECT_STREQ(claim->variable, "OMPI_COMM_WORLD_SIZE");
  EXPECT_EQ(claim->workers, 4u);
}

TEST(MpiLaunch, AClaimThatIsNoNumberIsNone) {
  for (const char* const text : {"", "four", "4x", "-4", "99999999999"}) {
    const Variables variables{{"PMI_RANK", "0"}, {"PMI_SIZE", text}};
    EXPECT_FALSE(claim_of(as_environment(variables)).has_value()) << text;
  }
}

TEST(MpiLaunch, OneOfManyThatIsAloneIsRefusedWithBothNumbers) {
  const Verdict alone = check_claim(as_environment(kHydra), 1);
  ASSERT_FALSE(alone.has_value());
  EXPECT_EQ(alone.error().code, Code::unavailable);
  for (const char* const words : {"PMI_SIZE says 4", "alone", "mpirun -n 4", "srun --mpi=pmix"}) {
    EXPECT_NE(alone.error().message.find(words), std::string::npos) << alone.error().message;
  }
  EXPECT_TRUE(check_claim(as_environment(kHydra), 4));
  EXPECT_TRUE(check_claim(as_environment(kSrunPmix), 8));  // steps of several parts
  EXPECT_TRUE(check_claim(as_environment({{"PMI_SIZE", "1"}}), 1));
}

}  // namespace
}  // namespace sluice::mpi
