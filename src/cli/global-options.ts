/** Options that every command takes. */
export const globalOptions: readonly (readonly [flags: string, meaning: string])[] = [
  ["--json", "answer with one JSON document on stdout"],
  ["--url <url>", "server; else PIERHEAD_URL, else credentials.json of the data directory"],
  ["--workspace <id>", "workspace; else PIERHEAD_WORKSPACE, else the key's own"],
  ["--api-key-file <file>", "file with the API key, - is stdin; else PIERHEAD_API_KEY, else credentials.json"],
  ["--data-dir <directory>", "data directory of a server on this machine; else PIERHEAD_DATA_DIR, else ~/.pierhead"],
  ["--verbose", "show HTTP calls, secrets masked, and build lines"],
  ["--no-color", "no colors; NO_COLOR, FORCE_COLOR, CI and TERM=dumb are obeyed too"],
];
