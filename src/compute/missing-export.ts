import { inArtifact } from "./artifact-paths.ts";

export interface MissingExport {
  /** Names the file, the line, the name and the module. */
  sentence: string;
  /** The lines of the log that show the import. */
  proof: string[];
  /** Position of its error among the lines. */
  at: number;
}

const ofNode = /^SyntaxError: The requested module '(\.[^']*)' does not provide an export named '([^']+)'/;
const ofPython = /^ImportError: cannot import name '([^']+)' from '([^']+)' \(([^)]+)\)/;
const nodeLocation = /^(\S+\.[cm]?[jt]sx?):(\d+)$/;
const pythonLocation = /^File "([^"]+)", line (\d+)/;
/** Files of packages and of Python itself. */
const installed = /(?:^|[\\/])(?:site-packages|dist-packages|node_modules|lib[\\/]python[\d.]+)[\\/]/;

/** Python has found only a directory, which may belong to a package: `google` without google-genai. */
const unknownFile = "unknown location";

/**
 * Returns the import of a name that another file of the project does not export; null: the log has none. Names that an installed
 * package lacks have causes of their own.
 * @param lines of `plainLines`.
 */
export function findMissingExport(lines: readonly string[]): MissingExport | null {
  const at = lines.findLastIndex((line) => ofNode.test(line) || ofPython.test(line));
  const line = lines[at] ?? "";
  const [, module, name] = ofNode.exec(line) ?? [];
  if (module !== undefined && name !== undefined) {
    const sentence = (where: string) =>
      `${where} imports '${name}' from '${module}', which does not export it. Correct the import, or export the name.`;
    return describe(lines, at, { location: nodeLocation, sentence });
  }
  const [, wanted, from, file = ""] = ofPython.exec(line) ?? [];
  if (wanted === undefined || file === unknownFile || installed.test(file)) return null;
  const sentence = (where: string) =>
    `${where} imports '${wanted}' from '${from}' (${inArtifact(file)}), which does not define it. Correct the import, or define the name.`;
  return describe(lines, at, { location: pythonLocation, sentence });
}

function describe(
  lines: readonly string[],
  at: number,
  { location, sentence }: { location: RegExp; sentence: (where: string) => string },
): MissingExport | null {
  const shown = lines.slice(0, at).findLastIndex((line) => location.test(inArtifact(line)));
  const head = inArtifact(lines[shown] ?? "");
  const [, file = "", line] = location.exec(head) ?? [];
  if (line === undefined || installed.test(file)) return null;
  const code = shown + 1 < at ? lines[shown + 1] : undefined;
  const proof = [head, ...(code === undefined ? [] : [`  ${code}`])];
  return { sentence: sentence(`Line ${line} of ${file}`), proof, at };
}
