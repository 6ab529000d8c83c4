#!/usr/bin/env bash
# The root script builds what is stale, once, quietly, and runs the program with the caller's arguments and folder.
. "$(dirname "$0")/world.sh"
make_world
cd "$world"

run train "a b" --x=1
expect "arguments, folder and status go through" equal "$code $out" "7 $world|train|a b|--x=1|"
expect "Release, Ninja, this CPU" grep -q -- '-G Ninja -DCMAKE_BUILD_TYPE=Release -DTRIREME_ARCH=native' calls
expect "only the program is built" grep -Eq '^ninja .* trireme$' calls
expect "it says on standard error that it builds" has "$err" "build.log"

forget_calls
run train
expect "nothing is called when nothing changed" equal "$(calls cmake) $(calls ninja) $(calls dpkg-query) $err" "0 0 0 "
forget_calls; echo "int x;" >"$clone/tests/t.cpp"; run train
expect "a test's change does not concern the program" equal "$(calls ninja)" 0

stale() { # stale WHAT: the next call builds; the one after it does not
  forget_calls; run doctor
  expect "$1 is noticed" equal "$(calls ninja)" 1
  forget_calls; run doctor
  expect "$1 is built once" equal "$(calls ninja)" 0
}
echo "int y;" >>"$clone/framework/a.cpp"; stale "a changed source"
touch "$clone/framework/b.h"; stale "a new header"
touch -d 2001-01-01 "$clone/framework/b.h"; stale "a header older than before"
rm "$clone/framework/b.h"; stale "a removed header"
mkdir "$clone/zero"; touch "$clone/zero/CMakeLists.txt"; stale "a new floor"
rm "$clone/build/recipes/trireme"; stale "a missing program"

export TRIREME_ARCH=x86-64-v3
touch "$clone/build/old.o"; stale "another CPU"
expect "objects for another CPU are gone" test ! -e "$clone/build/old.o"
unset TRIREME_ARCH
forget_calls; run doctor
expect "the chosen CPU is remembered" equal "$(calls ninja)" 0
sed -i '1s/.*/cpu native flags of elsewhere|/' "$clone/build/.stamp" "$clone/build/.machine"
touch "$clone/build/old.o"; stale "a folder that came from another CPU"
expect "its objects are gone" test ! -e "$clone/build/old.o"
tool c++ <<<'exit 0 # a newer one'; touch "$clone/build/old.o"; stale "another compiler"
expect "the old compiler's objects are gone" test ! -e "$clone/build/old.o"
mv "$clone" "$world/moved clone"; clone="$world/moved clone"
touch "$clone/build/old.o"; stale "a moved clone"
expect "the old folder's objects are gone" test ! -e "$clone/build/old.o"

ln -s "$clone/trireme" "$world/link"
expect "a link to the script runs it" equal "$("$world/link" x || true)" "$world|x|"

touch "$world/break"; echo >>"$clone/framework/a.cpp"; run train
expect "a failed build ends with 1" equal "$code $out" "1 "
expect "the compiler's words are shown" has "$err" "a.cpp:1: error: no luck"
expect "the command line is not" test "${err/c++ -c/}" == "$err"
run train
expect "a failed build is tried again" equal "$code" 1
rm "$world/break"; run train
expect "and then succeeds" equal "$code" 7

# Two calls at once: the second waits for the first's lock, then finds the work done.
echo >>"$clone/framework/a.cpp"; forget_calls
mkfifo "$world/gate"
tool ninja <<EOT
cat "$world/gate" >/dev/null
printf '#!/usr/bin/env bash\nexit 7\n' >"\$2/recipes/trireme"
EOT
"$clone/trireme" train >/dev/null 2>&1 </dev/null & first=$!
until [[ $(calls ninja) == 1 ]]; do :; done
"$clone/trireme" train >/dev/null 2>"$world/second" </dev/null & second=$!
until grep -q "waiting for it" "$world/second" 2>/dev/null; do :; done
echo go >"$world/gate"
wait "$first" || true
wait "$second" || true
expect "two calls build once" equal "$(calls ninja)" 1
