/** Reads all items of a list, however many pages of the API they take. */
export async function gathered<T>(items: AsyncIterable<T> | Iterable<T>): Promise<T[]> {
  const all: T[] = [];
  for await (const item of items) all.push(item);
  return all;
}
