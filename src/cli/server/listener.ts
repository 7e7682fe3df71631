import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";

export interface ListenerOptions {
  port?: string;
  compute?: string;
}

/** Runs a data plane in this process until Ctrl-C or a termination signal. Its agents keep running. */
export async function runListener(session: Session, _: string[], options: ListenerOptions): Promise<void> {
  const { terminal, context, signal, options: globals } = session;
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
  session.answer({ url: listener.url, pid: process.pid }, () => listener.url);
  terminal.say("The listener is running. Stop it with Ctrl-C. Agents keep running.");
  if (!signal.aborted) {
    await new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
  }
  terminal.say("Stopping ...");
  await listener.close();
  terminal.say("Stopped.");
}
