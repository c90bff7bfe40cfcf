// An engine without dependencies: Nim. Take 1 to 3 of the heap; who takes the last one wins.
// Run by a pool, it speaks Playmill's engine protocol (docs/engines.md) on standard input and output.
import { writeSync } from "node:fs";

const HELLO = 1, NEW = 2, ACT = 3, DROP = 4, PING = 5, BYE = 6;
const WELCOME = 64, TURN = 65, OVER = 66, PONG = 67, FAILED = 68;
const VERSION = 1, NO_GAME = 0xffffffff, LIMIT = 1 << 20;

const games = new Map(); // number -> { heap, turn, seat }
let heap = 21;

function send(kind, payload) {
  const frame = Buffer.alloc(5 + payload.length);
  frame.writeUInt32LE(1 + payload.length, 0);
  frame.writeUInt8(kind, 4);
  payload.copy(frame, 5);
  for (let at = 0; at < frame.length; ) {
    try {
      at += writeSync(1, frame, at);
    } catch (error) {
      if (error.code !== "EAGAIN") process.exit(0); // the pool is gone
    }
  }
}

function fail(game, text) {
  const payload = Buffer.concat([Buffer.alloc(4), Buffer.from(text)]);
  payload.writeUInt32LE(game, 0);
  send(FAILED, payload);
}

// HELLO: magic, version, JSON. WELCOME: what the game is; the pool works out the schema's hash from the fields.
function greet(payload) {
  if (payload.toString("latin1", 0, 8) !== "PLAYMILL") return fail(NO_GAME, "this is no HELLO");
  if (payload.readUInt16LE(8) !== VERSION) return fail(NO_GAME, `this engine speaks version ${VERSION}`);
  const { options } = JSON.parse(payload.toString("utf8", 10));
  heap = Number(options.heap ?? heap);
  if (!Number.isInteger(heap) || heap < 1 || heap > 200) return fail(NO_GAME, "heap must be from 1 to 200");
  const told = {
    protocol: VERSION, engine: "nim.mjs", version: "1", games: 1000,
    game: "nim", title: "Nim", seats: 2, actions: 3, // action a takes a + 1
    roles: ["take"], stats: ["win"], bots: ["perfect"],
    fields: [["heap", "category", 1, 1, heap + 1, 1.0, ""]],
    schema_hash: null,
  };
  send(WELCOME, Buffer.from(JSON.stringify(told)));
}

// TURN: game, turn, seat, role, a reward for each seat (f32), the observation, the legal actions as bits.
function ask(number, { heap, turn, seat }) {
  const row = Buffer.alloc(10 + 8 + 1 + 8);
  row.writeUInt32LE(number, 0);
  row.writeUInt32LE(turn, 4);
  row.writeUInt8(seat, 8);
  row.writeUInt8(heap, 18);
  row.writeUInt8((1 << Math.min(heap, 3)) - 1, 19);
  send(TURN, row);
}

function act(number, turn, action) {
  const game = games.get(number);
  if (!game || game.turn !== turn) return fail(number, `game ${number} does not wait for turn ${turn}`);
  if (action === -1) action = (game.heap + 3) % 4 === 3 ? 0 : (game.heap + 3) % 4; // its own bot plays
  if (action < 0 || action > 2 || action >= game.heap) {
    games.delete(number);
    return fail(number, `action ${action} is not legal`);
  }
  game.heap -= action + 1;
  game.turn += 1;
  if (game.heap > 0) {
    game.seat = 1 - game.seat;
    return ask(number, game);
  }
  // OVER: game, rewards, and for each seat the sum and count of each statistic.
  games.delete(number);
  const end = Buffer.alloc(4 + 8 + 16);
  end.writeUInt32LE(number, 0);
  for (const seat of [0, 1]) {
    end.writeFloatLE(seat === game.seat ? 1 : -1, 4 + 4 * seat);
    end.writeFloatLE(seat === game.seat ? 1 : 0, 12 + 8 * seat);
    end.writeFloatLE(1, 16 + 8 * seat);
  }
  send(OVER, end);
}

function take(kind, payload) {
  if (kind === HELLO) return greet(payload);
  if (kind === PING) return send(PONG, payload);
  if (kind === BYE) process.exit(0);
  const number = payload.readUInt32LE(0);
  if (kind === NEW) {
    games.set(number, { heap, turn: 0, seat: Number(payload.readBigUInt64LE(4) % 2n) }); // the seed: who begins
    ask(number, games.get(number));
  } else if (kind === ACT) {
    act(number, payload.readUInt32LE(4), payload.readInt32LE(8));
  } else if (kind === DROP) {
    games.delete(number);
  } else {
    fail(NO_GAME, `no pool sends frames of kind ${kind}`);
  }
}

let rest = Buffer.alloc(0);
process.stdin.on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  while (rest.length >= 4) {
    const length = rest.readUInt32LE(0);
    if (length < 1 || length > LIMIT) process.exit(1);
    if (rest.length < 4 + length) break;
    const [kind, payload] = [rest[4], rest.subarray(5, 4 + length)];
    rest = rest.subarray(4 + length);
    take(kind, payload);
  }
});
process.stdin.on("end", () => process.exit(0));
