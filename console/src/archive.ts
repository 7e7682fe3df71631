import { createIgnoreRules } from "../../src/domain/ignore-rules.ts";

/** A file that the user dropped or chose, with its path below the folder. */
export interface SourceFile {
  path: string;
  file: File;
}

/** Never part of a source: files that tools generate, the git history, and secrets, which belong in the environment. */
const alwaysIgnored = new Set(["__pycache__", ".git", ".venv", "venv", "node_modules", ".tox", ".mypy_cache"]);
const isEnvFile = (name: string) => name === ".env" || (name.startsWith(".env.") && !name.endsWith(".example"));

/** Files that the build reads stay even if .dockerignore excludes them: many projects exclude their own Dockerfile there. */
const isBuildFile = (path: string) => /(^|\/)(langgraph\.json|pierhead\.json|Dockerfile|\.dockerignore)$/.test(path);

/** Returns the files of dropped folders. A single folder is the root of the source. */
export async function filesOfDrop(items: DataTransferItemList): Promise<SourceFile[]> {
  const entries = [...items].flatMap((item) => item.webkitGetAsEntry() ?? []);
  const [only] = entries;
  if (entries.length === 1 && only !== undefined && only.isDirectory) return walk(only as FileSystemDirectoryEntry, "");
  return (await Promise.all(entries.map((entry) => filesOf(entry, "")))).flat();
}

async function filesOf(entry: FileSystemEntry, below: string): Promise<SourceFile[]> {
  const path = below === "" ? entry.name : `${below}/${entry.name}`;
  if (entry.isDirectory) return alwaysIgnored.has(entry.name) ? [] : walk(entry as FileSystemDirectoryEntry, path);
  const file = await new Promise<File>((resolve, reject) => (entry as FileSystemFileEntry).file(resolve, reject));
  return [{ path, file }];
}

async function walk(directory: FileSystemDirectoryEntry, below: string): Promise<SourceFile[]> {
  const reader = directory.createReader();
  const entries: FileSystemEntry[] = [];
  // A reader returns at most 100 entries at a time.
  for (;;) {
    const some = await new Promise<FileSystemEntry[]>((resolve, reject) => reader.readEntries(resolve, reject));
    if (some.length === 0) break;
    entries.push(...some);
  }
  return (await Promise.all(entries.map((entry) => filesOf(entry, below)))).flat();
}

/** Returns the files of a folder input. Their paths begin with the folder's name, which is removed. */
export function filesOfInput(list: FileList): SourceFile[] {
  return [...list].map((file) => ({ path: file.webkitRelativePath.replace(/^[^/]*\//, "") || file.name, file }));
}

/** Removes files that .gitignore or .dockerignore excludes, generated files and .env files, and counts them. */
export async function withoutIgnored(files: readonly SourceFile[]): Promise<{ kept: SourceFile[]; leftOut: number }> {
  const [rules, imageRules] = [createIgnoreRules(), createIgnoreRules()];
  for (const { path, file } of files) {
    const name = path.slice(path.lastIndexOf("/") + 1);
    if (name === ".gitignore") rules.add(path.slice(0, Math.max(0, path.length - 11)), await file.text(), "gitignore");
    if (path === ".dockerignore") imageRules.add("", await file.text(), "dockerignore");
  }
  const kept = files.filter(({ path }) => {
    const parts = path.split("/");
    if (parts.some((part) => alwaysIgnored.has(part)) || isEnvFile(parts.at(-1) ?? "")) return false;
    return !rules.ignoresBelow(path, false) && (isBuildFile(path) || !imageRules.ignoresBelow(path, false));
  });
  return { kept, leftOut: files.length - kept.length };
}

/** Returns a gzipped tar of these files (POSIX ustar). @throws Error for a path that is too long for the format. */
export async function archiveOf(files: readonly SourceFile[]): Promise<Blob> {
  const parts: BlobPart[] = [];
  for (const { path, file } of files) {
    parts.push(headerOf(path, file.size), file, new Uint8Array((512 - (file.size % 512)) % 512));
  }
  parts.push(new Uint8Array(1_024));
  return new Response(new Blob(parts).stream().pipeThrough(new CompressionStream("gzip"))).blob();
}

function headerOf(path: string, size: number): Uint8Array<ArrayBuffer> {
  const head = new Uint8Array(512);
  const put = (text: string, at: number) => head.set(new TextEncoder().encode(text), at);
  const octal = (value: number, length: number) => value.toString(8).padStart(length - 1, "0");
  const [prefix, name] = splitPath(path);
  put(name, 0);
  put(octal(0o644, 8), 100);
  put(octal(0, 8), 108);
  put(octal(0, 8), 116);
  put(octal(size, 12), 124);
  put(octal(0, 12), 136);
  put("        ", 148);
  put("0", 156);
  put("ustar\u000000", 257);
  put(prefix, 345);
  const sum = head.reduce((total, byte) => total + byte, 0);
  put(`${octal(sum, 7)}\0 `, 148);
  return head;
}

/** Splits a path for a ustar header: up to 155 bytes before a slash and up to 100 bytes after it. */
function splitPath(path: string): [prefix: string, name: string] {
  const bytes = (text: string) => new TextEncoder().encode(text).length;
  if (bytes(path) <= 100) return ["", path];
  for (let at = path.indexOf("/"); at >= 0; at = path.indexOf("/", at + 1)) {
    const [prefix, name] = [path.slice(0, at), path.slice(at + 1)];
    if (bytes(prefix) <= 155 && bytes(name) <= 100) return [prefix, name];
  }
  throw new Error(`The path ${path} is too long for an archive.`);
}
