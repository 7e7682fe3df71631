import { nullable, table, timestamp } from "./table.ts";

export const clockTable = table("clock", {
  mark: timestamp,
  worked_at: timestamp,
  resumed_at: nullable(timestamp),
});
