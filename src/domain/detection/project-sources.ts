/** Access to the files of one project. Paths are relative to its directory, with `/`. */
export interface ProjectReader {
  /** Lists the files of the directory and below, without those of third parties. */
  list(): Promise<readonly string[]>;
  /** @returns null when the file does not exist, is not text, or is too large to be written by hand. */
  read(file: string): Promise<string | null>;
}

/** Limits of what is read: enough for a server with its modules, and fast in any tree. */
const sourcesMax = 200;
const sourceDepthMax = 5;
const sourceCharactersMax = 4 * 1024 * 1024;

/** Directories whose programs are not the server. */
const besides =
  /(^|\/)(tests?|__tests__|docs?(?:_src)?|(?:examples?|samples?)(?:[_-]\w+)?|tutorials?|notebooks?|migrations|alembic|evals?|benchmarks?|scripts)\/|(^|\/)(?:(?:test|mock)_\w+|\w+_(?:test|mock)|conftest)\.py$/;

/** Directories with servers that show how the project is used. */
const samples = /(^|\/)(?:(?:examples?|samples?)(?:[_-]\w+)?|tutorials?|scripts|docs_src)\//;

const tests = /(^|\/)(tests?|__tests__|evals?|benchmarks?)\/|(^|\/)(?:test_\w+|\w+_test|conftest)\.py$/;

/** Returns whether a file may belong to the server: it is in no directory of tests, samples or tools. */
export const isOwn = (file: string) => !besides.test(file);
export const isSample = (file: string) => samples.test(file) && !tests.test(file);

export interface SourceText {
  file: string;
  text: string;
}

interface Sources {
  texts: SourceText[];
  /** Whether these are all sources of the project. */
  isComplete: boolean;
}

/**
 * Reads the project's own source files with an extension, nearest to the root first, within the limits.
 * @param isWanted which files; by default those that are not beside the server.
 */
export async function readSources(
  reader: ProjectReader,
  files: ReadonlySet<string>,
  extension: RegExp,
  isWanted: (file: string) => boolean = isOwn,
): Promise<Sources> {
  const own = [...files].filter((file) => extension.test(file) && isWanted(file));
  const near = own
    .filter((file) => depthOf(file) <= sourceDepthMax)
    .sort((a, b) => depthOf(a) - depthOf(b) || (a < b ? -1 : 1))
    .slice(0, sourcesMax);
  const read = await Promise.all(near.map(async (file) => ({ file, text: await reader.read(file) })));
  let left = sourceCharactersMax;
  const texts = read.flatMap(({ file, text }) => {
    left -= text?.length ?? 0;
    return text === null || left < 0 ? [] : [{ file, text }];
  });
  return { texts, isComplete: texts.length === own.length };
}

const depthOf = (file: string) => file.split("/").length;
