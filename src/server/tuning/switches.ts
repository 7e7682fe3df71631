import type { Setting } from "../setting.ts";

/** Adjustments of this folder, by the names that `PIERHEAD_TUNING_OFF` lists. */
export const tuningNames = ["memory-limits", "memory-release", "in-process-calls", "compile-cache"] as const;
export type TuningName = (typeof tuningNames)[number];

/** Setting that turns adjustments off, so that a benchmark can measure what each one is worth. */
export const tuningOff: Setting<ReadonlySet<TuningName>> = {
  name: "PIERHEAD_TUNING_OFF",
  fallback: "none",
  meaning: `For measurements: comma-separated adjustments of Node and of memory to turn off: ${tuningNames.map((name) => `\`${name}\``).join(", ")}.`,
  read(text) {
    const given = (text ?? "").split(",").map((name) => name.trim());
    const unknown = given.find((name) => name !== "" && !(tuningNames as readonly string[]).includes(name));
    if (unknown === undefined) return new Set(given.filter((name) => name !== "") as TuningName[]);
    throw new Error(`PIERHEAD_TUNING_OFF may list ${tuningNames.join(", ")}, got "${unknown}"`);
  },
};
