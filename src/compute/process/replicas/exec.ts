import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { readFile, readlink } from "node:fs/promises";
import { PassThrough, type Readable, type Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { ExecRefused, type ExecRequest, type ExecSession } from "../../compute.ts";
import { joinCgroup } from "../system/cgroup.ts";
import { execIdVariable, isRunning, killExec, replicaIdVariable } from "../system/processes.ts";
import type { LaunchContext, StartRequest } from "./launch.ts";
import type { ReplicaRecord } from "./replica-files.ts";

/** Node cannot open a terminal, but Python can, and nearly every machine has it. */
const pythons = ["/usr/bin/python3", "/usr/local/bin/python3"];

/**
 * Starts a program in the directory, with the variables, the user and the limits of a running replica. The variables are read from
 * the replica's own process, because the driver keeps them nowhere. Linux only.
 * @throws ExecRefused when the replica does not run, or on another system.
 */
export async function execBeside(
  { nodePath }: Pick<LaunchContext, "nodePath">,
  record: ReplicaRecord,
  { argv, terminal }: ExecRequest,
): Promise<ExecSession> {
  const { cwd, env: ofReplica } = await surroundings(record);
  const id = randomUUID();
  const env: Record<string, string> = { ...ofReplica, [execIdVariable]: id };
  const python = terminal === null ? undefined : pythons.find((file) => existsSync(file));
  const hasTerminal = terminal !== null && python !== undefined;
  // Both wait on descriptor 3 until they are in the cgroup, so that nothing of the program runs without its limits.
  const [program, args] = hasTerminal ? [python, ["-I", ownProgram("exec-terminal.py"), ...argv]] : [nodePath, gate];
  const child = spawn(program, args, {
    cwd,
    env: hasTerminal ? { ...env, TERM: env["TERM"] ?? "xterm-256color" } : { [execIdVariable]: id },
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  await new Promise((resolve, reject) => child.once("spawn", resolve).once("error", reject)).catch((error: Error) => {
    throw new ExecRefused(`The program could not be started: ${error.message}`);
  });
  const control = child.stdio[3] as Writable;
  const session = sessionOf(child, id);
  // A replica without limits has no cgroup.
  await joinCgroup(record.cgroups, child.pid as number).catch(() => {});
  const sizeLine = ({ columns, rows }: { columns: number; rows: number }) => `${columns} ${rows}\n`;
  if (hasTerminal) control.write(sizeLine(terminal));
  else control.end(JSON.stringify({ argv: [...argv], cwd, env } satisfies StartRequest));
  return {
    ...session,
    hasTerminal,
    errors: hasTerminal ? null : session.errors,
    resize: (size) =>
      hasTerminal ? new Promise((resolve) => control.write(sizeLine(size), () => resolve())) : Promise.resolve(),
  };
}

/** Returns directory and variables of a replica. @throws ExecRefused when it does not run, or hides them. */
async function surroundings(record: ReplicaRecord): Promise<{ cwd: string; env: Record<string, string> }> {
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
  const variables = environ.split("\0").filter(Boolean);
  const env = Object.fromEntries(
    variables.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]),
  );
  // A program that shows its state as the name of its process may write over its variables.
  if (env[replicaIdVariable] !== record.replicaId)
    throw new ExecRefused("The variables of the agent cannot be read, because its process has overwritten them.");
  return { cwd, env };
}

function sessionOf(child: ChildProcess, id: string): ExecSession & { errors: Readable } {
  const [stdin, stdout, stderr, control] = child.stdio as unknown as [Writable, Readable, Readable, Writable];
  const [output, errors] = [stdout.pipe(new PassThrough()), stderr.pipe(new PassThrough())];
  for (const pipe of [stdin, control]) pipe.on("error", () => {}); // the program ended before it read everything
  let killing: Promise<void> | undefined;
  const killAll = () => {
    killing ??= killExec(id);
    return killing;
  };
  // What it leaves in the background would keep the output open.
  child.once("exit", () => void killAll().catch(() => {}));
  const ended = new Promise<number>((resolve) => {
    child.once("close", (code, signal) => resolve(code ?? 128 + (signal === "SIGKILL" ? 9 : 15)));
  });
  return {
    hasTerminal: false,
    input: stdin,
    output,
    errors,
    resize: async () => {},
    ended,
    async kill() {
      await killAll();
      // Output that no client reads any more would keep the pipes open.
      for (const stream of [stdin, stdout, stderr, control, output, errors]) stream.destroy();
    },
  };
}

const ownProgram = (name: string) => fileURLToPath(new URL(`./${name}`, import.meta.url));

const gate = [ownProgram("gate.mjs")];
