/*
 * line: does a waiter in a line with direct handoff eventually hold?
 *
 * The line is that of redislock: a script that ends a claim grants the first live
 * waiter and notifies it. Claims 0 and 1 may die at any moment and claim 1 may give
 * up; claim 2 does neither. Time is a separate process that eventually expires the
 * claims of the dead.
 *
 *   L  claim 2 eventually holds, if every enabled process runs (weak fairness)
 *   X  no two claims hold at the same time
 *   D  no claim is granted whose place has expired
 *
 * README.md describes each variant.
 */

/* The faults. */
#ifndef DEATHS
#define DEATHS 1 /* claims 0 and 1 may stop for good, in line or holding */
#endif
#ifndef LOSS
#define LOSS 1 /* a notice may be lost */
#endif
#ifndef CANCEL
#define CANCEL 1 /* claim 1 may give up */
#endif
#ifndef TIME
#define TIME 1 /* claims of the dead expire */
#endif

/* The protections of the waiter. */
#ifndef TELL
#define TELL 1 /* a granted claim is notified */
#endif
#ifndef LOOK
#define LOOK 1 /* a claim that subscribes only after it entered checks its state then */
#endif
#ifndef POLL
#define POLL 1 /* a waiter polls, no later than at the holder's expiry */
#endif
#ifndef PRUNE
#define PRUNE 1 /* expired places are removed from the line */
#endif
#ifndef UNCLAIMED
#define UNCLAIMED 1 /* a grant that its claim does not notice expires like any hold */
#endif
#ifndef GIVEBACK
#define GIVEBACK 1 /* Leave also ends a claim that was granted meanwhile */
#endif

#define NOBODY 3

byte hold = NOBODY;
bit  claimed;           /* the holder knows that it holds */
byte line[3] = NOBODY;
bit  dead[3], ended[3]; /* its claim is no longer beaten; its place has expired */
bit  subscribed[3], told[3];   /* it receives notices; it was notified */
bit  held[3];           /* it has held */
byte inside;

/* The parts of a script. */
#define waits(c) (line[0] == (c) || line[1] == (c) || line[2] == (c))

inline part(c) {
  if
  :: line[0] == c -> line[0] = line[1]; line[1] = line[2]; line[2] = NOBODY
  :: line[1] == c -> line[1] = line[2]; line[2] = NOBODY
  :: line[2] == c -> line[2] = NOBODY
  :: else
  fi
}

inline prune() {
  if :: PRUNE && waits(0) && ended[0] -> part(0) :: else fi;
  if :: PRUNE && waits(1) && ended[1] -> part(1) :: else fi
}

inline let_in() {
  hold = line[0]; claimed = 0;
  printf("claim %d is let in\n", hold);
  assert(!ended[hold]); /* D */
  part(hold);
  if
  :: TELL && hold != me && subscribed[hold] -> told[hold] = 1
  :: LOSS || !TELL || hold == me || !subscribed[hold] -> skip
  fi
}

inline settle() {
  prune();
  if
  :: hold == NOBODY && line[0] != NOBODY -> let_in()
  :: else
  fi
}

/* The scripts. */
inline enter() {
  settle();
  if
  :: hold == NOBODY -> hold = me; claimed = 1; got = 1 /* settle found the line empty */
  :: else ->
     if
     :: line[0] == NOBODY -> line[0] = me
     :: line[0] != NOBODY && line[1] == NOBODY -> line[1] = me
     :: else -> line[2] = me
     fi
  fi
}

inline look() {
  told[me] = 0;
  settle();
  if
  :: hold == me -> claimed = 1; got = 1
  :: else
  fi
}

inline leave() {
  if
  :: hold == me && (GIVEBACK || got) -> hold = NOBODY; claimed = 0
  :: else -> part(me)
  fi;
  settle()
}

proctype Claim(byte me) {
  bit got;
  if :: subscribed[me] = 1 :: skip fi;
  if
  :: atomic { enter() }
  :: atomic { DEATHS && me != 2 -> dead[me] = 1; enter(); goto over } /* it dies before its Enter arrives */
  fi;
  do
  :: got -> break
  :: atomic { !got && told[me] -> look() }
  :: atomic { !got && !subscribed[me] -> subscribed[me] = 1; if :: LOOK -> look() :: else fi }
  :: atomic { !got && POLL -> look() }
  :: atomic { !got && CANCEL && me == 1 -> dead[me] = 1; leave(); goto over }
  :: atomic { !got && DEATHS && me != 2 -> dead[me] = 1; goto over }
  od;
  atomic { inside++; assert(inside == 1); held[me] = 1 } /* X */
  if
  :: atomic { inside--; dead[me] = 1; leave() }
  :: atomic { DEATHS && me != 2 -> inside--; dead[me] = 1 } /* its context has ended before its claim expires */
  fi;
over:
  skip
}

#if TIME
active proctype Time() {
end: do
  :: d_step { hold != NOBODY && dead[hold] && (claimed || UNCLAIMED) -> hold = NOBODY; claimed = 0 }
  :: d_step { waits(0) && dead[0] && !ended[0] -> ended[0] = 1 }
  :: d_step { waits(1) && dead[1] && !ended[1] -> ended[1] = 1 }
  od
}
#endif

init { atomic { run Claim(0); run Claim(1); run Claim(2) } }

ltl L { <> held[2] }
