/**
 * Adds, subtracts, multiplies and divides, with brackets and the usual precedence.
 * @throws Error in words for the user.
 */
export function calculate(expression: string): number {
  const tokens = expression.match(/\d+(?:\.\d+)?|[-+*/()]/g) ?? [];
  let at = 0;

  const sum = (): number => {
    let value = product();
    while (tokens[at] === "+" || tokens[at] === "-") value = tokens[at++] === "+" ? value + product() : value - product();
    return value;
  };
  const product = (): number => {
    let value = factor();
    while (tokens[at] === "*" || tokens[at] === "/") value = tokens[at++] === "*" ? value * factor() : divide(value, factor());
    return value;
  };
  const factor = (): number => {
    const token = tokens[at++];
    if (token === "-") return -factor();
    if (token === "+") return factor();
    if (token !== "(") return number(token);
    const value = sum();
    if (tokens[at++] !== ")") throw new Error("a bracket is not closed");
    return value;
  };

  const value = sum();
  if (at < tokens.length) throw new Error(`'${tokens[at]}' is not expected there`);
  return value;
}

function number(token: string | undefined): number {
  const value = Number(token);
  if (token === undefined || Number.isNaN(value)) throw new Error("a number is missing");
  return value;
}

function divide(a: number, b: number): number {
  if (b === 0) throw new Error("nothing can be divided by zero");
  return a / b;
}
