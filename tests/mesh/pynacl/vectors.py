"""The mesh's formats, written and read once more with libsodium (PyNaCl), by the description alone.

    vectors.py make [--long]   prints vectors that libsodium made
    vectors.py check           reads vectors from standard input and checks each; exit code 1 if one is wrong

A vector is an object whose `kind` says what it is about; secrets are in it, because both sides must check everything.
"""

import base64
import hashlib
import json
import struct
import sys

import nacl
from nacl import bindings as sodium
from nacl.encoding import RawEncoder
from nacl.exceptions import CryptoError
from nacl.hash import blake2b

CHUNK = 256 * 1024


def b64(data):
    return base64.b64encode(data).decode()


def unb64(text):
    return base64.b64decode(text, validate=True)


def b64url(data):
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def unb64url(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def sha256(data):
    return hashlib.sha256(data).digest()


def canonical(value):
    # Enough for the texts and whole numbers that are used here.
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def curve_secret(secret):
    return sodium.crypto_sign_ed25519_sk_to_curve25519(secret)


def curve_public(public):
    return sodium.crypto_sign_ed25519_pk_to_curve25519(public)


def signature(message, secret):
    return sodium.crypto_sign(message, secret)[:64]


def verify(message, signature, public):
    return sodium.crypto_sign_open(signature + message, public) == message


def derive(root, purpose):
    return blake2b(purpose.encode(), digest_size=32, key=root, encoder=RawEncoder)


# What is made.


def make_sign(message):
    public, secret = sodium.crypto_sign_keypair()
    return {
        "kind": "sign",
        "secret": secret.hex(),
        "public": public.hex(),
        "message": b64(message),
        "signature": signature(message, secret).hex(),
        "x25519_public": curve_public(public).hex(),
        "x25519_secret": curve_secret(secret).hex(),
    }


def make_dm(plain):
    from_public, from_secret = sodium.crypto_sign_keypair()
    to_public, to_secret = sodium.crypto_sign_keypair()
    nonce = sodium.randombytes(24)
    boxed = sodium.crypto_box_easy(plain, nonce, curve_public(to_public), curve_secret(from_secret))
    return {
        "kind": "dm",
        "from_secret": from_secret.hex(),
        "to_secret": to_secret.hex(),
        "plain": b64(plain),
        "nonce": b64(nonce),
        "ciphertext": b64(boxed),
    }


def make_topic(plain):
    key, nonce = sodium.randombytes(32), sodium.randombytes(24)
    boxed = sodium.crypto_secretbox_easy(plain, nonce, key)
    return {"kind": "topic", "key": key.hex(), "plain": b64(plain), "nonce": b64(nonce), "ciphertext": b64(boxed)}


def make_topic_seal():
    from_public, from_secret = sodium.crypto_sign_keypair()
    to_public, to_secret = sodium.crypto_sign_keypair()
    key, nonce = sodium.randombytes(32), sodium.randombytes(24)
    boxed = sodium.crypto_box_easy(key, nonce, curve_public(to_public), curve_secret(from_secret))
    return {
        "kind": "topic_seal",
        "from_secret": from_secret.hex(),
        "to_secret": to_secret.hex(),
        "key": key.hex(),
        "blob": b64(curve_public(from_public) + boxed),
        "nonce": b64(nonce),
    }


def make_anonymous(plain):
    public, secret = sodium.crypto_sign_keypair()
    boxed = sodium.crypto_box_seal(plain, curve_public(public))
    return {"kind": "anonymous", "to_secret": secret.hex(), "plain": b64(plain), "text": b64(boxed)}


def make_general():
    root = sodium.randombytes(32)
    return {"kind": "general", "root": b64url(root), "key": derive(root, "claudemesh-general-0").hex()}


def make_invite_root():
    secret, root, nonce = sodium.randombytes(32), sodium.randombytes(32), sodium.randombytes(24)
    key = sha256(b"claudemesh-invite-key|" + secret)
    return {
        "kind": "invite_root",
        "secret": b64url(secret),
        "commitment": b64url(sha256(b"claudemesh-invite|" + secret)),
        "root": b64url(root),
        "sealed": b64(nonce + sodium.crypto_secretbox_easy(root, nonce, key)),
    }


def make_hello():
    public, secret = sodium.crypto_sign_keypair()
    frame = {
        "type": "hello",
        "protocolVersion": 2,
        "meshId": "m1",
        "memberId": "u1",
        "pubkey": public.hex(),
        "displayName": "grüße",
        "timestamp": 1790000000000,
        "nonce": b64(sodium.randombytes(32)),
        "somethingNew": {"b": [1, None, True], "a": "\u2028\n"},
    }
    text = hello_text(frame)
    frame["signature"] = signature(text, secret).hex()
    return {"kind": "hello", "frame": json.dumps(frame)}


def hello_text(frame):
    rest = {name: value for name, value in frame.items() if name != "signature"}
    digest = sha256(canonical(rest)).hex()
    fields = [frame["meshId"], frame["memberId"], frame["pubkey"], frame["nonce"], str(frame["timestamp"]), digest]
    return "|".join(["claudemesh-hello-v2"] + fields).encode()


def make_fingerprint(meta):
    fields = ["dm", "01hzzzzzzzzzzzzzzzzzzzzzzz", "m0", "now"]
    vector = {"kind": "fingerprint", "fields": fields, "meta": meta, "body": b64("grüße\n".encode())}
    vector["fingerprint"] = fingerprint(vector).hex()
    return vector


def fingerprint(vector):
    kind, to, reply, priority = vector["fields"]
    meta = b"" if vector["meta"] is None else canonical(vector["meta"])
    parts = [b"1", kind.encode(), to.encode(), reply.encode(), priority.encode(), meta]
    return sha256(b"".join(part + b"\0" for part in parts) + sha256(unb64(vector["body"])))


def make_file(plain):
    key = sodium.randombytes(32)
    head = {"name": "notes.txt", "size": len(plain), "sha256": sha256(plain).hex()}
    state = sodium.crypto_secretstream_xchacha20poly1305_state()
    header = sodium.crypto_secretstream_xchacha20poly1305_init_push(state, key)

    def push(data, last):
        final = sodium.crypto_secretstream_xchacha20poly1305_TAG_FINAL
        message = sodium.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
        return sodium.crypto_secretstream_xchacha20poly1305_push(state, data, None, final if last else message)

    sealed_head = push(json.dumps(head).encode(), False)
    out = b"CMF1" + header + struct.pack(">H", len(sealed_head)) + sealed_head
    pieces = [plain[at : at + CHUNK] for at in range(0, len(plain), CHUNK)] or [b""]
    for place, piece in enumerate(pieces):
        out += push(piece, place == len(pieces) - 1)
    return {"kind": "file", "key": key.hex(), "name": head["name"], "plain": b64(plain), "sealed": b64(out)}


def backup_key(passphrase, passes, memory, salt):
    return sodium.crypto_pwhash_alg(
        32, passphrase, salt, passes, memory, sodium.crypto_pwhash_ALG_ARGON2ID13
    )


def backup_header(content, passes, memory, salt, nonce):
    return b"HOSTELBK" + bytes([1, ord(content), 2, 0]) + struct.pack(">IQ", passes, memory) + salt + nonce


def make_backup(plain):
    passphrase, passes, memory = "grüße, several words".encode(), 2, 1 << 20
    salt, nonce = sodium.randombytes(16), sodium.randombytes(24)
    key = backup_key(passphrase, passes, memory, salt)
    out = backup_header("m", passes, memory, salt, nonce) + sodium.crypto_secretbox_easy(plain, nonce, key)
    out += sha256(out)
    return {"kind": "backup", "passphrase": b64(passphrase), "plain": b64(plain), "sealed": b64(out)}


def make_backup_stream(messages):
    passphrase, passes, memory = b"several words", 1, 1 << 20
    salt = sodium.randombytes(16)
    key = backup_key(passphrase, passes, memory, salt)
    state = sodium.crypto_secretstream_xchacha20poly1305_state()
    nonce = sodium.crypto_secretstream_xchacha20poly1305_init_push(state, key)
    header = backup_header("h", passes, memory, salt, nonce)
    out = header
    for place, plain in enumerate(messages):
        last = place == len(messages) - 1
        final = sodium.crypto_secretstream_xchacha20poly1305_TAG_FINAL
        message = sodium.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
        bound = header if place == 0 else None
        sealed = sodium.crypto_secretstream_xchacha20poly1305_push(state, plain, bound, final if last else message)
        out += struct.pack(">I", len(sealed)) + sealed
        if place == 0:
            out += sha256(out)
    messages = [b64(plain) for plain in messages]
    return {"kind": "backup_stream", "passphrase": b64(passphrase), "messages": messages, "sealed": b64(out)}


# What is checked.


def check_sign(v):
    secret, public, message = bytes.fromhex(v["secret"]), bytes.fromhex(v["public"]), unb64(v["message"])
    assert sodium.crypto_sign_seed_keypair(secret[:32]) == (public, secret)
    assert signature(message, secret).hex() == v["signature"]
    assert verify(message, bytes.fromhex(v["signature"]), public)
    assert curve_public(public).hex() == v["x25519_public"]
    assert curve_secret(secret).hex() == v["x25519_secret"]


def check_dm(v):
    sender, reader = bytes.fromhex(v["from_secret"]), bytes.fromhex(v["to_secret"])
    nonce, boxed = unb64(v["nonce"]), unb64(v["ciphertext"])
    opened = sodium.crypto_box_open_easy(boxed, nonce, curve_public(sender[32:]), curve_secret(reader))
    assert opened == unb64(v["plain"])


def check_topic(v):
    opened = sodium.crypto_secretbox_open_easy(unb64(v["ciphertext"]), unb64(v["nonce"]), bytes.fromhex(v["key"]))
    assert opened == unb64(v["plain"])


def check_topic_seal(v):
    sender, reader = bytes.fromhex(v["from_secret"]), bytes.fromhex(v["to_secret"])
    blob = unb64(v["blob"])
    assert blob[:32] == curve_public(sender[32:])
    opened = sodium.crypto_box_open_easy(blob[32:], unb64(v["nonce"]), blob[:32], curve_secret(reader))
    assert opened.hex() == v["key"]


def check_anonymous(v):
    secret = bytes.fromhex(v["to_secret"])
    opened = sodium.crypto_box_seal_open(unb64(v["text"]), curve_public(secret[32:]), curve_secret(secret))
    assert opened == unb64(v["plain"])


def check_general(v):
    assert derive(unb64url(v["root"]), "claudemesh-general-0").hex() == v["key"]


def check_invite_root(v):
    secret, sealed = unb64url(v["secret"]), unb64(v["sealed"])
    assert b64url(sha256(b"claudemesh-invite|" + secret)) == v["commitment"]
    opened = sodium.crypto_secretbox_open_easy(sealed[24:], sealed[:24], sha256(b"claudemesh-invite-key|" + secret))
    assert opened == unb64url(v["root"])


def check_hello(v):
    frame = json.loads(v["frame"])
    assert verify(hello_text(frame), bytes.fromhex(frame["signature"]), bytes.fromhex(frame["pubkey"]))


def check_fingerprint(v):
    assert fingerprint(v).hex() == v["fingerprint"]


def check_file(v):
    key, sealed = bytes.fromhex(v["key"]), unb64(v["sealed"])
    assert sealed[:4] == b"CMF1"
    header, (length,), rest = sealed[4:28], struct.unpack(">H", sealed[28:30]), sealed[30:]
    state = sodium.crypto_secretstream_xchacha20poly1305_state()
    sodium.crypto_secretstream_xchacha20poly1305_init_pull(state, header, key)

    def pull(data):
        return sodium.crypto_secretstream_xchacha20poly1305_pull(state, data)

    message = sodium.crypto_secretstream_xchacha20poly1305_TAG_MESSAGE
    final = sodium.crypto_secretstream_xchacha20poly1305_TAG_FINAL
    head, tag = pull(rest[:length])
    assert tag == message
    head, rest, plain = json.loads(head), rest[length:], b""
    while True:
        piece, tag = pull(rest[: CHUNK + 17])
        plain, rest = plain + piece, rest[CHUNK + 17 :]
        if tag == final:
            break
        assert len(piece) == CHUNK
    assert not rest
    assert plain == unb64(v["plain"])
    assert head == {"name": v["name"], "size": len(plain), "sha256": sha256(plain).hex()}


def backup_parts(sealed):
    assert sealed[:12] in (b"HOSTELBK\x01m\x02\x00", b"HOSTELBK\x01h\x02\x00")
    passes, memory = struct.unpack(">IQ", sealed[12:24])
    return passes, memory, sealed[24:40], sealed[40:64]


def check_backup(v):
    sealed = unb64(v["sealed"])
    passes, memory, salt, nonce = backup_parts(sealed)
    assert sha256(sealed[:-32]) == sealed[-32:]
    key = backup_key(unb64(v["passphrase"]), passes, memory, salt)
    assert sodium.crypto_secretbox_open_easy(sealed[64:-32], nonce, key) == unb64(v["plain"])


def check_backup_stream(v):
    sealed = unb64(v["sealed"])
    passes, memory, salt, nonce = backup_parts(sealed)
    state = sodium.crypto_secretstream_xchacha20poly1305_state()
    key = backup_key(unb64(v["passphrase"]), passes, memory, salt)
    sodium.crypto_secretstream_xchacha20poly1305_init_pull(state, nonce, key)
    at, messages, tag = 64, [], None
    while at < len(sealed):
        (length,) = struct.unpack(">I", sealed[at : at + 4])
        bound = None if messages else sealed[:64]
        plain, tag = sodium.crypto_secretstream_xchacha20poly1305_pull(state, sealed[at + 4 : at + 4 + length], bound)
        messages.append(plain)
        at += 4 + length
        if len(messages) == 1:
            assert sha256(sealed[:at]) == sealed[at : at + 32]
            at += 32
    assert tag == sodium.crypto_secretstream_xchacha20poly1305_TAG_FINAL
    assert messages == [unb64(text) for text in v["messages"]]


def make(long):
    texts = [b"", b"hi", "grüße, ".encode() * 20]
    vectors = [make_sign(text) for text in texts]
    vectors += [make_dm(text) for text in texts]
    vectors += [make_topic(text) for text in texts]
    vectors += [make_topic_seal(), make_anonymous(b"key"), make_general(), make_invite_root(), make_hello()]
    vectors += [make_fingerprint(meta) for meta in [None, {}, {"b": [1, "ü\u0007"], "a": {"z": True, "y": -3}}]]
    files = [b"", b"hello\n"] + ([bytes(2 * CHUNK), bytes(CHUNK + 100)] if long else [])
    vectors += [make_file(plain) for plain in files]
    vectors += [make_backup(text) for text in texts]
    vectors += [make_backup_stream([b"first", b"", b"x" * 65536, b"last"])]
    print(json.dumps({"made_by": "PyNaCl " + nacl.__version__, "vectors": vectors}, indent=1, ensure_ascii=False))


def check():
    vectors = json.load(sys.stdin)["vectors"]
    wrong = 0
    for place, vector in enumerate(vectors):
        try:
            globals()["check_" + vector["kind"]](vector)
        except (AssertionError, CryptoError, KeyError, ValueError) as error:
            wrong += 1
            print(f"vector {place} ({vector.get('kind')}): {error!r}", file=sys.stderr)
    print(f"{len(vectors)} vectors checked, {wrong} wrong")
    sys.exit(wrong > 0 or not vectors)


if sys.argv[1:2] == ["make"]:
    make("--long" in sys.argv)
elif sys.argv[1:] == ["check"]:
    check()
else:
    sys.exit(__doc__)
