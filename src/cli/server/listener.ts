import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";

export interface ListenerOptions {
  port?: string;
  compute?: string;
}

/** Runs a data plane in this process until Ctrl-C or a termination signal. Its agents keep running. */
export async function runListener(session: Session, _: string[], options: ListenerOptions): Promise<void> {
  const { context, options: globals } = session;
  const environment = {
    ...context.env,
    ...(globals.url === undefined ? {} : { PIERHEAD_URL: globals.url }),
    ...(globals.dataDir === undefined ? {} : { PIERHEAD_DATA_DIR: globals.dataDir }),
    ...(options.port === undefined ? {} : { PORT: options.port }),
    ...(options.compute === undefined ? {} : { PIERHEAD_COMPUTE: options.compute }),
  };
  const listener = await context.startListener(environment).catch((error: Error) => {
    throw new CliFailure("The listener did not start.", { because: error.message });
  });
  await runUntilStopped(session, listener, "The listener is running. Stop it with Ctrl-C. Agents keep running.");
}

/** Runs a replica of the gateway in a cluster. Stopping it takes as long as the requests in flight. */
export async function runClusterGateway(session: Session): Promise<void> {
  const { context } = session;
  const gateway = await context.startClusterGateway({ ...context.env }).catch((error: Error) => {
    throw new CliFailure("The gateway did not start.", { because: error.message });
  });
  await runUntilStopped(session, gateway, "The gateway is running.");
}

async function runUntilStopped(
  session: Session,
  running: { url: string; close(): Promise<void> },
  announcement: string,
): Promise<void> {
  const { terminal, signal } = session;
  session.answer({ url: running.url, pid: process.pid }, () => running.url);
  terminal.say(announcement);
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  }
  terminal.say("Stopping ...");
  await running.close();
  terminal.say("Stopped.");
}
