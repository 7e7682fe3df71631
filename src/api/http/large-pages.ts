import { setImmediate } from "node:timers/promises";
import { errors } from "../../contract/error.ts";
import { Turns } from "../logs/turns.ts";
import { UploadPace } from "../uploads/upload-pace.ts";

const mib = 1024 * 1024;

/** Bytes of the large rows of one page. Encoding them takes 0.1 s, which a request of others may wait for. */
const pageBytesMax = 16 * mib;

/** Rows up to this size cost little. */
const smallBytesMax = 65_536;

interface PageOf<Row, T> {
  read(): Promise<readonly Row[]>;
  /** Size of the fields that a row lacks because they are large; null: the row has all. */
  largeBytesOf(row: Row): number | null;
  small(row: Row): T;
  /** Reads a whole row. Returns nothing for one that is gone by now. */
  large(row: Row): Promise<T[]>;
}

/**
 * Reads pages whose rows may be large. 100 deployments or groups may have 100 MiB of secrets: such a page occupied the server for more
 * than a second, and four at once took 1.2 GB. 16 connections that each read one
 * such row made a request of another workspace wait for 2 s instead of 5 ms. A workspace with such rows gets one answer at a time, and
 * 16 MiB of them a second.
 */
export class LargePages {
  /** The turns of the workspaces that have large rows. */
  readonly #turns = new Map<string, Turns>();
  readonly #pace = new UploadPace();

  /** @throws ApiError 400 `invalidSetting` for more than a page may have. */
  async present<Row, T>(
    call: { principal: { tenantId: string }; readonly signal: AbortSignal },
    page: PageOf<Row, T>,
  ): Promise<T[]> {
    const { tenantId } = call.principal;
    const turns = this.#turns.get(tenantId);
    if (turns !== undefined) return turns.take(tenantId, async () => this.#rows(call, page, await page.read()));
    const rows = await page.read();
    if (rows.some((row) => page.largeBytesOf(row) !== null)) this.#turns.set(tenantId, new Turns());
    return this.#rows(call, page, rows);
  }

  /** Reads one row. @param bytesOf size of its large fields */
  async one<Row>(
    call: { principal: { tenantId: string }; readonly signal: AbortSignal },
    read: () => Promise<Row>,
    bytesOf: (row: Row) => number,
  ): Promise<Row> {
    const { tenantId } = call.principal;
    const paced = async () => {
      const row = await read();
      if (bytesOf(row) <= smallBytesMax) return row;
      if (!this.#turns.has(tenantId)) this.#turns.set(tenantId, new Turns());
      this.#pace.forgetIdle();
      await this.#pace.wait(tenantId, bytesOf(row), call.signal);
      return row;
    };
    return this.#turns.get(tenantId)?.take(tenantId, paced) ?? paced();
  }

  async #rows<Row, T>(
    call: { principal: { tenantId: string }; readonly signal: AbortSignal },
    page: PageOf<Row, T>,
    rows: readonly Row[],
  ): Promise<T[]> {
    const bytes = rows.reduce((sum, row) => sum + (page.largeBytesOf(row) ?? 0), 0);
    if (bytes === 0) return rows.map((row) => page.small(row));
    const { signal } = call;
    this.#pace.forgetIdle();
    // Also before a refusal, because the database has read the rows.
    await this.#pace.wait(call.principal.tenantId, bytes, signal);
    if (bytes > pageBytesMax) {
      const because = `is too large: this page has ${Math.ceil(bytes / mib)} MiB of secrets and settings, and a page has at most ${pageBytesMax / mib}. Ask for fewer.`;
      throw errors.invalidSetting("limit", because);
    }
    const presented: T[] = [];
    for (const row of rows) {
      if (signal.aborted) break;
      if (page.largeBytesOf(row) === null) presented.push(page.small(row));
      else {
        presented.push(...(await page.large(row)));
        await setImmediate();
      }
    }
    return presented;
  }
}
