import { createHash } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { gzipSync } from "node:zlib";

/** Returns one unchecked entry as bytes, like those of a hostile client. */
export interface RawEntry {
  name: string;
  /** "0" file, "1" hard link, "2" symbolic link, "3" and "4" devices, "5" directory, "6" pipe, "x" and "g" headers. */
  type?: string;
  content?: string | Buffer;
  /** Size in the header; defaults to the length of the content. */
  size?: number;
  linkName?: string;
  mode?: number;
  /** Corrupts the checksum. */
  isBroken?: boolean;
}

const block = 512;

export function rawTar(entries: RawEntry[], options: { isEnded?: boolean } = {}): Buffer {
  const end = options.isEnded === false ? [] : [Buffer.alloc(2 * block)];
  return Buffer.concat([...entries.map(entryBytes), ...end]);
}

function entryBytes(entry: RawEntry): Buffer {
  const content = Buffer.from(entry.content ?? "");
  const header = Buffer.alloc(block);
  header.write(entry.name.slice(0, 100), 0);
  header.write(octal(entry.mode ?? 0o644, 7), 100);
  header.write(octal(0, 7), 108);
  header.write(octal(0, 7), 116);
  header.write(octal(entry.size ?? content.length, 11), 124);
  header.write(octal(0, 11), 136);
  header.write("        ", 148);
  header.write(entry.type ?? "0", 156);
  header.write(entry.linkName ?? "", 157);
  header.write("ustar\0" + "00", 257);
  const sum = header.reduce((total, byte) => total + byte, 0) + (entry.isBroken ? 1 : 0);
  header.write(`${octal(sum, 6)}\0 `, 148);
  return Buffer.concat([header, content, Buffer.alloc((block - (content.length % block)) % block)]);
}

/** Returns a PAX header for the next entry. */
export function pax(values: Record<string, string>, type = "x"): RawEntry {
  const records = Object.entries(values).map(([key, value]) => {
    const rest = ` ${key}=${value}\n`;
    let length = Buffer.byteLength(rest);
    while (String(length).length + Buffer.byteLength(rest) !== length)
      length = String(length).length + Buffer.byteLength(rest);
    return `${length}${rest}`;
  });
  return { name: "PaxHeader", type, content: records.join("") };
}

/** Writes bytes to a file and returns it as a tarball source. */
export async function writeArchive(file: string, bytes: Buffer): Promise<{ path: string; sha256: string }> {
  await writeFile(file, bytes);
  return { path: file, sha256: createHash("sha256").update(bytes).digest("hex") };
}

export const gzippedTar = (entries: RawEntry[], options?: { isEnded?: boolean }) => gzipSync(rawTar(entries, options));

const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0");
