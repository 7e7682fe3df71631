import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, readlink } from "node:fs/promises";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { ExecRefused, type ExecRequest, type ExecSession } from "../../compute.ts";
import { joinCgroup } from "../system/cgroup.ts";
import { isRunning, killMarked } from "../system/processes.ts";
import type { ReplicaRecord } from "./replica-files.ts";

/** Marks everything that one session starts, so that nothing of it outlives the session. */
const sessionVariable = "PIERHEAD_EXEC_ID";

/** Node cannot open a terminal, but Python can, and nearly every machine has it. */
const pythons = ["/usr/bin/python3", "/usr/local/bin/python3"];

/**
 * Starts a program in the directory, with the variables, the user and the limits of a running replica. The variables are read from
 * the replica's own process, because the driver keeps them nowhere. Linux only.
 * @throws ExecRefused when the replica does not run, or on another system.
 */
export async function execBeside(record: ReplicaRecord, { argv, terminal }: ExecRequest): Promise<ExecSession> {
  if (process.platform !== "linux")
    throw new ExecRefused(
      `Without containers a program can run beside an agent only on Linux. This server runs on ${process.platform}.`,
    );
  const { pid } = record.process;
  const [environ, cwd] = await Promise.all([
    readFile(`/proc/${pid}/environ`, "utf8"),
    readlink(`/proc/${pid}/cwd`),
  ]).catch(() => ["", ""] as const);
  // Checked after reading: the pid may belong to another process by now.
  if (!isRunning(record.process) || cwd === "")
    throw new ExecRefused(`The replica ${record.replicaId} does not run any more.`);
  const id = randomUUID();
  const variables = environ.split("\0").filter(Boolean);
  const env = Object.fromEntries(
    variables.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]),
  );
  const python = terminal === null ? undefined : pythons.find((file) => existsSync(file));
  const hasTerminal = terminal !== null && python !== undefined;
  const [program = "", ...rest] = hasTerminal
    ? [python, "-I", terminalProgram, String(terminal.columns), String(terminal.rows), ...argv]
    : argv;
  const child = spawn(program, rest, {
    cwd,
    env: { ...env, [sessionVariable]: id, ...(hasTerminal && { TERM: env["TERM"] ?? "xterm-256color" }) },
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  // Before anything is awaited: the program may end at once, and Node then discards what nothing reads.
  const [output, errors] = [child.stdout.pipe(new PassThrough()), child.stderr.pipe(new PassThrough())];
  const [, , , control] = child.stdio as unknown as [Writable, Readable, Readable, Writable];
  for (const pipe of [child.stdin, control]) pipe.on("error", () => {}); // the program ended before it read everything
  const ended = new Promise<number>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal === "SIGKILL" ? 9 : 15)));
  });
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject)).catch((error: Error) => {
    const isMissing = (error as NodeJS.ErrnoException).code === "ENOENT";
    throw new ExecRefused(isMissing ? `There is no program ${program} in the PATH of the agent.` : error.message);
  });
  // Its own programs start in the cgroup, too. A replica without limits has no cgroup.
  await joinCgroup(record.cgroups, child.pid as number).catch(() => {});
  return {
    hasTerminal,
    input: child.stdin,
    output,
    errors: hasTerminal ? null : errors,
    resize: ({ columns, rows }) => void control.write(`${columns} ${rows}\n`),
    ended,
    kill: () => killMarked(sessionVariable, id),
  };
}

const terminalProgram = fileURLToPath(new URL("./exec-terminal.py", import.meta.url));
