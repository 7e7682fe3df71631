import { settings } from "./config.ts";

/** docs/reference/configuration.md, from the table that reads the environment. */
export function configurationReference(): string {
  const rows = Object.values(settings).map(
    ({ name, fallback, meaning }) => `| \`${name}\` | ${fallback} | ${meaning} |`,
  );
  return `# Configuration

Read from the environment once, at start. Written by \`npm run generate\` from \`src/server/config.ts\`.

| Variable | Default | Meaning |
|---|---|---|
${rows.join("\n")}
`;
}
