import { cp, mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import path from "node:path";
import { startTestServer, type TestServer } from "../support/server.ts";
import { connectionsIn, type Ended, type PublicClient, type RunningClient, startClient } from "./program.ts";

/** A server, and a user's machine with a public client and a project. */
export interface ClientMachine extends AsyncDisposable {
  pierhead: TestServer;
  /** Working directory of the client: the project. */
  projectDir: string;
  /** Temporary directory of this machine. */
  tempDir: string;
  write(files: Record<string, string>): Promise<void>;
  /** Runs the client to its end, without input. */
  run(args: string[], env?: Record<string, string>): Promise<Ended>;
  start(args: string[], env?: Record<string, string>): RunningClient;
  /** Hosts that the client has connected to so far. */
  connections(): Promise<string[]>;
}

/**
 * Sets up the machine. The client finds a key in its environment, its own home directory, and no container engine.
 * @param options.prefix prefix of the API's address, as installations behind a proxy have it
 * @param options.server environment of the server
 */
export async function setUpClientMachine(
  client: PublicClient,
  project: string,
  { prefix = "", server = {} }: { prefix?: string; server?: Record<string, string> } = {},
): Promise<ClientMachine> {
  const tempDir = await mkdtemp(path.join(tmpdir(), "pierhead-clients-"));
  const projectDir = path.join(tempDir, "project");
  const filter = (file: string) => path.basename(file) !== "node_modules";
  await cp(path.join(import.meta.dirname, "../..", project), projectDir, { recursive: true, filter });
  const pierhead = await startTestServer(server);
  const connectionsFile = path.join(tempDir, "connections");
  const defaults = {
    PATH: process.env["PATH"] ?? "",
    HOME: tempDir,
    NO_COLOR: "1",
    DOCKER_HOST: `unix://${tempDir}/no-docker.sock`,
    LANGGRAPH_CLI_NO_ANALYTICS: "1",
    LANGSMITH_API_KEY: pierhead.apiKey,
    PIERHEAD_CONNECTIONS_FILE: connectionsFile,
  };
  const start = (args: string[], env: Record<string, string> = {}) =>
    startClient(client, [...args, "--host-url", pierhead.url + prefix], {
      cwd: projectDir,
      env: { ...defaults, ...env },
    });
  return {
    pierhead,
    projectDir,
    tempDir,
    start,
    run(args, env) {
      const running = start(args, env);
      running.answer("");
      return running.ended;
    },
    connections: () => connectionsIn(connectionsFile),
    async write(files) {
      for (const [name, text] of Object.entries(files)) {
        await mkdir(path.dirname(path.join(projectDir, name)), { recursive: true });
        await writeFile(path.join(projectDir, name), text);
      }
    },
    async [Symbol.asyncDispose]() {
      await pierhead[Symbol.asyncDispose]();
      await rm(tempDir, { recursive: true, force: true });
    },
  };
}
