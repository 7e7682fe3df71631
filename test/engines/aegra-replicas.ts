import { spawn } from "node:child_process";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { eventually } from "../support/eventually.ts";
import { clientOf, newDirectory, type Replica } from "./replicas.ts";

export interface AegraOptions {
  /** A replica that Pierhead runs. */
  pid: number;
  /** By default that of the replica. */
  databaseUrl?: string;
  redisUrl: string;
  schema: string;
  journal: string;
  /** `N_JOBS_PER_WORKER`. */
  jobs?: number;
  /** `BG_JOB_MAX_RETRIES`. */
  lossesMax?: number;
}

/**
 * Starts a replica as Pierhead does, with the program and the files of one that it runs, but with databases of its own. A test may end it
 * as often as it likes: nothing else starts it again.
 */
export async function startAegraReplica({
  pid,
  databaseUrl,
  redisUrl,
  schema,
  journal,
  jobs = 10,
  lossesMax,
}: AegraOptions): Promise<Replica> {
  const [program = "", ...argv] = readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(0, -1);
  const variables = readFileSync(`/proc/${pid}/environ`, "utf8").split("\0").filter(Boolean);
  const given = Object.fromEntries(
    variables.map((one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)]),
  );
  const { PIERHEAD_REPLICA_ID: _, PIERHEAD_DATA_DIR_ID: __, ...env } = given;
  const directory = newDirectory();
  const files = { stateDir: path.join(directory, "state"), reportFile: path.join(directory, "report.json") };
  mkdirSync(files.stateDir);
  const launch = {
    ...JSON.parse(readFileSync(argv.pop() ?? "", "utf8")),
    ...files,
    viewDir: path.join(directory, "view"),
    exitCodeFile: null,
    engineSchema: schema,
    redisPrefix: `${schema}:`,
  };
  const launchFile = path.join(directory, "launch.json");
  writeFileSync(launchFile, JSON.stringify(launch));
  const child = spawn(program, [...argv, launchFile], {
    env: {
      ...env,
      DATABASE_URI: databaseUrl ?? env["DATABASE_URI"],
      REDIS_URI: redisUrl,
      JOURNAL: journal,
      N_JOBS_PER_WORKER: String(jobs),
      ...(lossesMax !== undefined && { BG_JOB_MAX_RETRIES: String(lossesMax) }),
    },
    stdio: ["ignore", "pipe", "pipe"],
  });
  process.once("exit", () => child.kill("SIGKILL"));
  let log = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      log = (log + text).slice(-1_000_000);
    });
  }
  const ended = new Promise<number | string>((resolve) => {
    child.once("exit", (code, signal) => resolve(code ?? signal ?? -1));
  });
  const read = () => {
    if (child.exitCode !== null) throw new Error(`the replica ended with ${child.exitCode}:\n${log.slice(-3_000)}`);
    try {
      return JSON.parse(readFileSync(files.reportFile, "utf8")) as { port: number };
    } catch {
      return undefined;
    }
  };
  const report = await eventually(read, (found) => found !== undefined, { what: "a replica of Aegra" });
  const url = `http://127.0.0.1:${report?.port}`;
  return { process: child, ended, url, client: await clientOf(url), log: () => log };
}
