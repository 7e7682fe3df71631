import type { Output } from "../context.ts";
import { CliFailure } from "../failure.ts";
import type { Session } from "../session.ts";
import { cellText, harmless } from "./terminal.ts";
import { columns, fitted, nearest } from "./text.ts";

/** Maximum page size of the API. */
const pageSizeMax = 100;

/** Returns the items of all pages of a list. */
export async function everyPage<T>(
  read: (page: { limit: number; offset: number }) => Promise<{ resources: T[]; offset: number }>,
): Promise<T[]> {
  const all: T[] = [];
  for (let offset = 0; ; ) {
    const page = await read({ limit: pageSizeMax, offset });
    all.push(...page.resources);
    if (page.resources.length < pageSizeMax) return all;
    offset = page.offset;
  }
}

/**
 * Returns the item with the given name, id, or unique prefix of an id (at least four characters).
 * @param what Noun for the error message, such as "workspace".
 * @throws CliFailure without a match, with similar names as hints, or with several matches.
 */
export function choose<T extends { id: string }>(
  all: readonly T[],
  wanted: string,
  { what, nameOf }: { what: string; nameOf: (one: T) => string },
): T {
  const named = all.filter((one) => nameOf(one) === wanted);
  const isPrefix = /^[0-9a-f][0-9a-f-]{3,35}$/i.test(wanted);
  const found = named.length > 0 || !isPrefix ? named : all.filter(({ id }) => id.startsWith(wanted.toLowerCase()));
  const [one, another] = found;
  if (another !== undefined) {
    const hints = found.slice(0, 5).map((each) => `${each.id}  ${harmless(nameOf(each))}`);
    throw new CliFailure(`More than one ${what} matches "${wanted}". Use an id.`, { hints });
  }
  if (one !== undefined) return one;
  const alike = nearest(wanted, all.map(nameOf));
  throw new CliFailure(`There is no ${what} "${wanted}".`, {
    hints: alike.length === 0 ? [] : [`Did you mean ${alike.map(harmless).join(", ")}?`],
  });
}

/** Formats rows below a dim header, or returns undefined without rows. On a terminal no line is wider than it. */
export function tableOf(
  { terminal, context }: Session,
  head: readonly string[],
  rows: readonly (readonly string[])[],
): string | undefined {
  if (rows.length === 0) return undefined;
  const all = fittedTo(context.stdout, [head, ...rows.map((row) => row.map(cellText))]);
  const [first = "", ...lines] = columns(all).split("\n");
  return [terminal.paintOut("dim", first), ...lines].join("\n");
}

/** Shortens cells where lines would wrap. A file or another program gets them whole. */
export function fittedTo(
  { isTTY, columns: width }: Output,
  rows: readonly (readonly string[])[],
): readonly (readonly string[])[] {
  return isTTY === true && width !== undefined ? fitted(rows, width) : rows;
}
