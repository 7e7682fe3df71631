/**
 * Returns a program's output in a form that the API and PostgreSQL accept: without NUL, and without the lone surrogate that
 * a cut inside a character leaves.
 */
export const sanitizeText = (text: string): string => text.replaceAll("\u0000", "").toWellFormed();
