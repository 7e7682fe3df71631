import type { FoundLogEntry } from "../../../src/contract/logs/search.ts";
import { type LogField, type LogTerm, logTermsOf, quoteLogValue } from "../../../src/domain/log-query.ts";

/** Fields that make no sense in the log of one deployment. Values of one field are alternatives, so another name would add its lines. */
export const refusedWithin: readonly LogField[] = ["deployment"];

/**
 * Returns the query for the lines of one deployment. Lines of builds come only when the query names sources. The addition stands
 * at the end, so that positions in errors stay right.
 */
export function queryWithin(query: string, deploymentId: string): string {
  const source = sourcesOf(query).length > 0 ? "" : " source:deploy";
  return `${query} deployment:${quoteLogValue(deploymentId)}${source}`.trim();
}

/** Returns the sources that the query names. A query with a mistake names none. */
export const sourcesOf = (query: string): string[] => sourceTerms(query).flatMap(({ values }) => values);

export const withoutSources = (query: string): string =>
  sourceTerms(query)
    .toReversed()
    .reduce((text, { from, to }) => `${text.slice(0, from).trim()} ${text.slice(to).trim()}`.trim(), query);

function sourceTerms(query: string): LogTerm[] {
  try {
    return logTermsOf(query).filter(({ field }) => field === "source");
  } catch {
    return [];
  }
}

/** Returns the end of a replica's id, as the overview shows it. Build lines have no replica. */
export const replicaText = ({ replica, source }: FoundLogEntry): string => replica?.slice(-8) ?? source;
