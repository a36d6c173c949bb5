/*
 * session: is nobody let in beside a holder whose liveness is in another value?
 *
 * The line is that of driverkit/kvline. A claim names its session, and the session's
 * value says when it was last beaten, by the store's clock. A client beats, locks and
 * unlocks; a neighbour locks the same name; a judge removes the client's claim when its
 * time is over. Between a look at the clock and the arrival of the request, between a
 * read and the write that follows from it, and between a write and its answer any time
 * may pass.
 *
 *   X  the client and its neighbour never rely on a hold at the same time
 *
 * README.md describes each variant.
 */

/* The fault. */
#ifndef LOSS
#define LOSS 1 /* the answer to a beat may be lost */
#endif

/* The protections. */
#ifndef SWAP
#define SWAP 1 /* a beat is a compare-and-swap of the session's value */
#endif
#ifndef ENDS
#define ENDS 1 /* a session is ended before its claims are removed */
#endif
#ifndef REVISION
#define REVISION 1 /* by a compare-and-swap with the revision whose time was judged */
#endif
#ifndef BYBEAT
#define BYBEAT 1 /* a hold is relied on for one TTL from the last beat, however late it was granted */
#endif
#ifndef SENT
#define SENT 1 /* that time is counted from before the beat was sent */
#endif

#define TTL 2
#define HORIZON 5 /* the model ends at this time */

#define NOBODY 0
#define CLIENT 1
#define NEIGHBOUR 2

byte now;               /* the store's clock, and everybody's */
byte line[2];           /* line[0] holds */
byte revision, beaten;  /* of the value of the client's session */
bit  ended;             /* the value says that the session has ended */
bit  held;              /* the client knows that it holds */
byte until = TTL;       /* and relies on it until then: its session began with a beat at 0 */
bit  inside;            /* the neighbour relies on a hold */

inline check() { assert(!(inside && held && now < until)) }

inline enter(c) {
  if
  :: line[0] == NOBODY -> line[0] = c
  :: else -> line[1] = c
  fi
}

inline leave(c) {
  if
  :: line[0] == c -> line[0] = line[1]; line[1] = NOBODY
  :: line[1] == c -> line[1] = NOBODY
  :: else
  fi
}

proctype client() {
  byte known, sent; /* the revision that it wrote or read last; when it sent the beat */
  do
  :: atomic { beaten < now || revision == 0 -> sent = now } /* at most one beat a tick, or the model grows */
     if
     :: atomic { SWAP && !ended && revision == known -> revision++; beaten = now; known = revision }
        if
        :: atomic { SENT -> until = sent + TTL; check() }
        :: atomic { !SENT -> until = now + TTL; check() }
        :: LOSS /* it reads the revision again, but relies on the earlier beat */
        fi
     :: atomic { SWAP && (ended || revision != known) -> held = 0 } break /* its session has ended */
     :: atomic { !SWAP -> ended = 0; revision++; beaten = now; until = sent + TTL; check() }
     fi
  :: atomic { line[0] != CLIENT && line[1] != CLIENT && !held -> enter(CLIENT) }
  :: atomic { line[0] == CLIENT && !held -> held = 1; if :: BYBEAT :: !BYBEAT -> until = now + TTL fi; check() }
  :: held = 0; /* it unlocks, or its time is over */
     atomic { leave(CLIENT) }
  :: now == HORIZON -> break
  od
}

proctype neighbour() {
  do
  :: atomic { line[0] != NEIGHBOUR && line[1] != NEIGHBOUR -> enter(NEIGHBOUR) }
  :: atomic { line[0] == NEIGHBOUR && !inside -> inside = 1; check() }
  :: atomic { inside -> inside = 0; leave(NEIGHBOUR) }
  :: now == HORIZON -> break
  od
}

proctype judge() {
  byte seen, time; /* what it read of the session's value */
  bit over;
  do
  :: atomic { seen = revision; time = beaten; over = ended }
     if
     :: over -> atomic { leave(CLIENT) }
     :: !over && now < time + TTL
     :: !over && now >= time + TTL ->
        if
        :: !ENDS -> atomic { leave(CLIENT) }
        :: atomic { ENDS && (!REVISION || revision == seen) -> ended = 1; revision++ } atomic { leave(CLIENT) }
        :: ENDS && REVISION && revision != seen /* it was beaten meanwhile */
        fi
     fi
  :: now == HORIZON -> break
  od
}

proctype clock() {
  do
  :: now < HORIZON -> now++
  :: now == HORIZON -> break
  od
}

init { atomic { run client(); run neighbour(); run judge(); run clock() } }
