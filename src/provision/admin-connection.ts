import { unlessAborted } from "../base/unless-aborted.ts";
import { DatabaseServerError, displayAddress } from "./database-server.ts";

/** One connection of the operator to a database server. */
interface AdminConnection {
  open(): Promise<unknown>;
  /** May fail when the connection is closed already. */
  close(): Promise<void> | void;
}

/**
 * Opens a connection for one task and closes it afterwards. When the signal aborts, the task ends at once, and the library closes the
 * connection when it can.
 * @param server.kind name of the software, for messages
 * @throws DatabaseServerError, or the reason of the signal
 */
export async function withConnection(
  server: { kind: string; url: URL },
  connection: AdminConnection,
  signal: AbortSignal,
  act: () => Promise<void>,
): Promise<void> {
  const run = async () => {
    await connection.open();
    await act();
  };
  try {
    await unlessAborted(run, signal);
  } catch (error) {
    signal.throwIfAborted();
    const reason = error instanceof Error ? error.message || (error as NodeJS.ErrnoException).code : String(error);
    throw new DatabaseServerError(`${server.kind} at ${displayAddress(server.url)}: ${reason}`, { cause: error });
  } finally {
    const close = async () => connection.close();
    const closed = close().catch(() => {});
    if (!signal.aborted) await closed;
  }
}
