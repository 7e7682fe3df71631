/**
 * What a program printed, as the API and PostgreSQL take it: without NUL, and without the half of a character beyond
 * U+FFFF that a cut leaves.
 */
export const sanitizeText = (text: string): string => text.replaceAll("\u0000", "").toWellFormed();
