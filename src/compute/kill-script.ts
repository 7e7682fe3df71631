/**
 * Script for the shell of a container that kills everything with the text `$1` in its environment.
 * Twice, because a program may start another one meanwhile. `read` skips the zero bytes between the variables. It needs no program
 * but the shell, and reading the environment of the same user's programs needs no privilege.
 */
export const killScript = `for round in 1 2; do
  for file in /proc/[0-9]*/environ; do
    while IFS= read -r line || [ -n "$line" ]; do
      case $line in *"$1"*) pid=\${file#/proc/}; kill -9 "\${pid%/environ}"; break;; esac
    done 2>/dev/null <"$file"
  done
done`;
