import pg from "pg";

const int8 = 20;
const int8Array = 1016;

/** Parsers of column texts: bigint becomes a number, every other type is parsed as pg does (timestamptz Date, jsonb parsed). */
export const columnParsers: pg.CustomTypesConfig = {
  getTypeParser(oid: number, format?: "text" | "binary") {
    if (oid === int8) return Number;
    if (oid === int8Array) return (text: string) => parseInt8Array(text);
    return pg.types.getTypeParser(oid, format);
  },
};

function parseInt8Array(text: string): (number | null)[] {
  const inner = text.slice(1, -1);
  return inner === "" ? [] : inner.split(",").map((item) => (item === "NULL" ? null : Number(item)));
}

/** Formats bytes the way a bytea column reads them from JSON. */
export const byteaText = (bytes: Buffer): string => `\\x${bytes.toString("hex")}`;
