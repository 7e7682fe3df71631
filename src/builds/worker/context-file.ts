/** Returns the file of the build context that an attempt prepares for a cluster. A sweep of work directories removes it too. */
export const contextFileOf = (workDir: string): string => `${workDir}.tar`;
