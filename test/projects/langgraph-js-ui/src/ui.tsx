import { shout } from "./text.ts";

const Greeting = (props: { name: string }) => <p>{shout(`Hello ${props.name}`)}</p>;

export default { greeting: Greeting };
