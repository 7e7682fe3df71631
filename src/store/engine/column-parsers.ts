import pg from "pg";

const int8 = 20;
const int8Array = 1016;

/** How column texts become values: bigint as number, everything else as pg does it (timestamptz Date, jsonb parsed). */
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

/** Bytes as a column of type bytea takes them out of JSON. */
export const byteaText = (bytes: Buffer): string => `\\x${bytes.toString("hex")}`;
