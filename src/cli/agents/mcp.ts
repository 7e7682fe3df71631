import { realpath } from "node:fs/promises";
import path from "node:path";
import { StdioServerTransport, serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Deployment } from "../../contract/deployments/deployment.ts";
import { createMcpServer } from "../../mcp/mcp-server.ts";
import { deploy } from "../deployments/deploy.ts";
import { CliFailure } from "../failure.ts";
import { createSession, type Session } from "../session.ts";
import { findProject } from "../source/project.ts";
import { harmless } from "../terminal/terminal.ts";
import { clientVersion } from "../version.ts";

/** Serves the API as tools over stdin and stdout until the client closes stdin, or Ctrl-C. */
export async function serveMcp(session: Session, _: unknown, options: { readOnly?: boolean }): Promise<void> {
  const { context, terminal, signal } = session;
  const client = await session.client();
  const { url } = await session.connection();
  const transport = new StdioServerTransport(context.stdin, context.stdout);
  const handle = serveStdio(
    () =>
      createMcpServer({
        ...{ client, signal, version: clientVersion(), isReadOnly: options.readOnly === true },
        deployDirectory: (directory, name) => deployBelow(session, directory, name),
      }),
    { transport, onerror: (error) => terminal.say(harmless(error.message)) },
  );
  terminal.say(`Serving the tools of ${url}${options.readOnly ? ", read-only" : ""}. Ctrl-C stops.`);
  const { promise: ended, resolve: end } = Promise.withResolvers<void>();
  context.stdin.once("end", end).once("close", end);
  signal.addEventListener("abort", () => end(), { once: true });
  if (signal.aborted) end();
  await ended;
  await handle.close();
}

/** Deploys a directory below the working directory. A model that is misled must not send other files of the user to a server. */
async function deployBelow(session: Session, directory: string, name: string | undefined): Promise<Deployment> {
  const { context, terminal } = session;
  const root = await realpath(context.cwd);
  const wanted = await realpath(path.resolve(root, directory)).catch(() => {
    throw new CliFailure(`There is no directory ${directory}.`);
  });
  const relative = path.relative(root, wanted);
  if (relative.split(path.sep)[0] === ".." || path.isAbsolute(relative)) {
    throw new CliFailure(`Only directories below ${root} can be deployed. Start pierhead mcp in another one.`);
  }
  // A project may need the root of its workspace, or packages beside it.
  const packed = await realpath((await findProject(wanted, undefined)).root).catch((error: unknown) => {
    throw error instanceof CliFailure ? explained(error) : error;
  });
  const above = path.relative(root, packed);
  if (above.split(path.sep)[0] === ".." || path.isAbsolute(above)) {
    throw new CliFailure(`This project needs files of ${packed}, above ${root}. Start pierhead mcp there to allow it.`);
  }
  // stdout belongs to the protocol.
  const silent = { ...terminal, print: () => {}, draw: () => {}, isLive: false, isInteractive: false };
  const inner = createSession(context, silent, { ...session.options, json: true, verbose: false });
  let deployment: Deployment | undefined;
  const answer = (data: unknown) => {
    deployment = (data as { deployment: Deployment }).deployment;
  };
  try {
    await deploy({ ...inner, answer }, [wanted], { wait: false, ...(name !== undefined && { name }) });
  } catch (error) {
    // `--no-wait` ends as a failure with the answer given. How the revision ends is the answer of another tool.
    if (deployment === undefined) throw error instanceof CliFailure ? explained(error) : error;
  }
  if (deployment === undefined) throw new CliFailure("The deploy was not started.");
  return deployment;
}

const explained = ({ message, because, hints }: CliFailure) =>
  new CliFailure([message, because, ...hints].filter((line) => line !== null).join("\n"));
