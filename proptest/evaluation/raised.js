// Raised is an error of a server's answer.
export class Raised extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}
