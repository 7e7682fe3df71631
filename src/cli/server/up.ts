import path from "node:path";
import { findDataDir } from "../connection.ts";
import type { Environment, RunningServer } from "../context.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { duration } from "../terminal/text.ts";

export interface UpOptions {
  port?: string;
  host?: string;
  compute?: string;
  stopAgentsOnExit?: boolean;
}

/** Runs the server in this process until Ctrl-C or a termination signal. */
export async function up(session: Session, _: string[], options: UpOptions): Promise<void> {
  const { terminal, context, signal } = session;
  const startedAt = performance.now();
  const environment = environmentOf(session, options);
  terminal.say("Starting Pierhead ...");
  const server = await context
    .startServer(environment, { stopReplicasOnClose: options.stopAgentsOnExit === true })
    .catch((error: Error) => {
      throw explainStart(error);
    });
  const dataDir = findDataDir(session.options, context);
  const credentialsFile = path.join(dataDir, "credentials.json");
  const { workspaceId } = server.credentials;
  session.answer(
    { url: server.url, workspace_id: workspaceId, credentials_file: credentialsFile, pid: process.pid },
    () => server.url,
  );
  terminal.say(
    `${terminal.paintErr("green", "Ready")} in ${duration(performance.now() - startedAt)}. Stop with Ctrl-C. Agents ${options.stopAgentsOnExit ? "stop too" : "keep running"}.`,
  );
  terminal.say(`  Console   ${await consoleUrl(session, server)}`);
  terminal.say(`  Key       in ${credentialsFile}, used by commands on this machine\n  Next      pierhead deploy DIR`);
  if ((environment.PIERHEAD_COMPUTE ?? "process") === "process") {
    terminal.say(
      terminal.paintErr("yellow", "  Agents run as processes of this user: deploy only code that you trust."),
    );
  }
  await aborted(signal);
  terminal.say("Stopping ...");
  await server.close();
  terminal.say("Stopped.");
}

/** Returns a link that signs one browser in; in a log, which more people read, the plain address. */
export async function consoleUrl({ context, signal }: Session, server: RunningServer): Promise<string> {
  if (context.stderr.isTTY !== true) return context.env.PIERHEAD_PUBLIC_URL || server.url;
  const { createClient } = await import("../../client/client.ts");
  const client = createClient({ baseUrl: server.url, apiKey: server.credentials.adminKey });
  const link = await client.createSignInLink({ signal }).catch(() => undefined);
  return link?.url ?? server.url;
}

/** Converts the flags to environment variables, so that only the server interprets settings. */
function environmentOf({ context, options }: Session, { port, host, compute }: UpOptions): Environment {
  const isInteractive = context.stderr.isTTY === true && !context.env.PIERHEAD_LOG_LEVEL;
  return {
    ...context.env,
    PIERHEAD_DATA_DIR: findDataDir(options, context),
    ...(port === undefined ? {} : { PORT: port }),
    ...(host === undefined ? {} : { HOST: host }),
    ...(compute === undefined ? {} : { PIERHEAD_COMPUTE: compute }),
    ...(isInteractive ? { PIERHEAD_LOG_LEVEL: "warn" } : {}),
  };
}

const whileRunning = ["Use it:        pierhead deploy DIR", "Start another: pierhead up --data-dir DIR --port PORT"];

/** @param whenRunning hints if a server with the same data directory runs. */
export function explainStart(error: Error, whenRunning: readonly string[] = whileRunning): Error {
  const isRunning = error.message.startsWith("the data directory is in use");
  return new CliFailure(isRunning ? "A server with this data directory runs already." : "The server did not start.", {
    because: error.message,
    hints: isRunning ? whenRunning : ["Check this machine: pierhead doctor"],
  });
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
