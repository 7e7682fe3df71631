import { setImmediate } from "node:timers/promises";
import { BytePace } from "../../base/byte-pace.ts";
import { JsonStream } from "./json-stream.ts";

const mib = 1024 * 1024;

/** Rows up to this size cost little. */
const smallBytesMax = 65_536;

interface ReadCall {
  principal: { tenantId: string };
  readonly signal: AbortSignal;
}

interface Range {
  limit: number;
  offset: number;
}

interface PageOf<Row extends { id: string }, T> {
  read(range: Range): Promise<readonly Row[]>;
  /** Size of the fields that a row lacks because they are large; null: the row has all. */
  largeBytesOf(row: Row): number | null;
  small(row: Row): T;
  /** Reads a whole row. Returns undefined for one that is gone by now. */
  large(row: Row): Promise<T | undefined>;
}

/**
 * Answers reads of rows that may be large: 100 deployments or groups may have 100 MiB of secrets. As one text, such a page occupied the
 * server for more than a second, and four at once took 1.2 GB. So the rows are read, encoded and sent one by one, 16 MiB of them a
 * second for one workspace. The page has as many rows as any other, because pagers stop at a page shorter than its `limit`.
 */
export class LargePages {
  readonly #pace = new BytePace({ bytesPerS: 16 * mib, burstBytes: 16 * mib });

  async present<Row extends { id: string }, T>(
    call: ReadCall & { query: Range },
    page: PageOf<Row, T>,
  ): Promise<{ resources: T[]; offset: number } | JsonStream> {
    const { query } = call;
    const rows = await page.read(query);
    const isSmall = rows.every((row) => page.largeBytesOf(row) === null);
    if (!isSmall) return new JsonStream(this.#pieces(call, page, rows));
    return { resources: rows.map((row) => page.small(row)), offset: query.offset + rows.length };
  }

  /** Reads one row. @param bytesOf size of its large fields */
  async one<Row>(call: ReadCall, read: () => Promise<Row>, bytesOf: (row: Row) => number): Promise<Row> {
    const row = await read();
    if (bytesOf(row) > smallBytesMax) await this.#wait(call, bytesOf(row));
    return row;
  }

  async *#pieces<Row extends { id: string }, T>(
    call: ReadCall & { query: Range },
    page: PageOf<Row, T>,
    first: readonly Row[],
  ): AsyncGenerator<string, void> {
    const { limit, offset } = call.query;
    const sent = new Set<string>();
    const skipped = new Set<string>();
    let rows = first;
    let before = '{"resources":[';
    while (rows.length > 0) {
      for (const row of rows) {
        const shown = await this.#shown(call, page, row);
        if (call.signal.aborted) return;
        if (shown === undefined) skipped.add(row.id);
        else {
          sent.add(row.id);
          yield before + JSON.stringify(shown);
          before = ",";
        }
      }
      // The rows behind one that was deleted meanwhile have moved up.
      const missing = skipped.size === 0 || first.length < limit ? 0 : limit - sent.size;
      const next = missing === 0 ? [] : await page.read({ limit: missing, offset: offset + sent.size });
      rows = next.filter(({ id }) => !sent.has(id) && !skipped.has(id));
    }
    yield `${before === "," ? "" : before}],"offset":${offset + sent.size}}`;
  }

  async #shown<Row extends { id: string }, T>(call: ReadCall, page: PageOf<Row, T>, row: Row): Promise<T | undefined> {
    const bytes = page.largeBytesOf(row);
    if (bytes === null) return page.small(row);
    await this.#wait(call, bytes);
    // Others get the event loop between two rows.
    await setImmediate();
    return call.signal.aborted ? undefined : page.large(row);
  }

  async #wait({ principal, signal }: ReadCall, bytes: number): Promise<void> {
    this.#pace.forgetIdle();
    await this.#pace.wait(principal.tenantId, bytes, signal);
  }
}
