/** Options of every command. */
export const globalOptions: readonly (readonly [flags: string, meaning: string])[] = [
  ["--json", "print the answer as one JSON document on stdout"],
  ["--context <name>", "context of pierhead login to use; local is the server of the data directory"],
  [
    "--url <url>",
    "server; default: PIERHEAD_URL, then the current context, then credentials.json of the data directory",
  ],
  ["--workspace <id>", "workspace; default: PIERHEAD_WORKSPACE, then that of the context or the key"],
  [
    "--api-key-file <file>",
    "file with the API key, - is stdin; default: PIERHEAD_API_KEY, then the key stored for the server",
  ],
  [
    "--data-dir <directory>",
    "data directory of a server on this machine; default: PIERHEAD_DATA_DIR, then ~/.pierhead",
  ],
  ["--verbose", "show HTTP calls with masked secrets, and build logs"],
  ["--no-color", "no colors; NO_COLOR, FORCE_COLOR, CI and TERM=dumb also apply"],
];
