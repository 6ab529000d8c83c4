#!/usr/bin/env bash
# Under a launcher the root script never builds: a missing or stale build is an error that names ./trireme doctor.
. "$(dirname "$0")/world.sh"
make_world

for variable in OMPI_COMM_WORLD_SIZE PMI_SIZE PMI_RANK PMIX_RANK SLURM_STEP_ID; do
  export "$variable=0"
  forget_calls; rm -rf "$clone/build"; run train
  expect "$variable: a missing build is refused" equal "$code $(calls ninja) $(calls cmake) $(calls dpkg-query)" "1 0 0 0"
  expect "$variable: the cure is named" has "$err" "./trireme doctor"
  unset "$variable"
  run doctor
  export "$variable=0"
  run train
  expect "$variable: a fresh build runs" equal "$code $out" "7 $PWD|train|"
  mv "$clone" "$clone 2"; clone="$clone 2"; rm "$bin/c++"
  run train
  expect "$variable: another mount and no compiler do not matter" equal "$code" 7
  tool c++ <<<'exit 0'
  forget_calls; echo >>"$clone/framework/a.cpp"; run train
  expect "$variable: a stale build is refused" equal "$code $(calls ninja)" "1 0"
  expect "$variable: it says why" has "$err" "sources changed"
  run test
  expect "$variable: test is refused" equal "$code $(calls ctest)" "1 0"
  unset "$variable"
done

run doctor
sed -i '1s/.*/cpu native flags of elsewhere|/' "$clone/build/.stamp"
PMI_RANK=1 run train
expect "a build for another CPU is refused" has "$code $err" "for another CPU"
