/*
 * quorum: are the tokens that a majority of nodes grants unique and in order?
 *
 * Nodes and claims are those of packages driver and quorum. There is no clock:
 * a claim at a node may end at any moment, which covers every Leave, expiry, pause
 * and clock step. A call is one step at its node; its answer arrives at once, late or
 * never. A claim that crashes is one that is never scheduled again.
 *
 *   U  no token is returned twice
 *   M  a token is larger than all that were returned before its claim was first
 *      granted by any node
 *
 * repair.pml models how nodes become able to vote. README.md describes each variant.
 */

/* The size of the model. */
#ifndef NODES
#define NODES 3
#endif
#ifndef CLAIMS
#define CLAIMS 2
#endif
#ifndef READERS
#define READERS 0 /* how many claims are shared; the others are exclusive */
#endif
#ifndef ROUNDS
#define ROUNDS 1 /* how often a claim enters */
#endif
#ifndef RAISES
#define RAISES 1 /* how often a reader takes a higher token */
#endif
#ifndef START
#define START 0 /* counts start anywhere from 0 to this */
#endif

/* The faults, and how often they happen. */
#ifndef LAPSE
#define LAPSE 1 /* a claim at a node ends */
#endif
#ifndef STRAY
#define STRAY 1 /* answers to Enter are late or lost; 2: those to Confirm too */
#endif
#ifndef PROPOSE
#define PROPOSE 0 /* a claim proposes nothing, this, or one more */
#endif
#ifndef CUT
#define CUT 0 /* a node may ignore the proposal */
#endif
#ifndef OTHERS
#define OTHERS 0 /* grants of other names, which raise the same count */
#endif
#ifndef TWICE
#define TWICE 0 /* Enters that arrive twice */
#endif
#ifndef WIPES
#define WIPES 0 /* nodes that lose their data */
#endif
#ifndef KEEP
#define KEEP 0 /* or are restarted, and cannot know whether they lost anything */
#endif

#ifndef BACK
#define BACK 0 /* or come back with their initial state: they vote, and have no later grant */
#endif
#ifndef NEIGHBOUR
#define NEIGHBOUR 1 /* other users of the server reload what a restart has unloaded */
#endif

/* The protections of the tokens. */
#ifndef MAJORITY
#define MAJORITY (NODES / 2 + 1)
#endif
#ifndef RISE
#define RISE 1 /* every grant raises the count, even with a proposal */
#endif
#ifndef CONFIRM
#define CONFIRM 2 /* a second round if nodes differ; 1: for any claim that holds the node */
#endif
#ifndef GRANTED
#define GRANTED 1 /* a node confirms only the value it granted */
#endif
#ifndef TRY
#define TRY 1 /* a node confirms only the try it granted */
#endif
#ifndef STRICT
#define STRICT 1 /* a node confirms to a reader only a token above its count */
#endif
#ifndef LOW
#define LOW 1 /* a late grant above the token does not confirm it */
#endif
#ifndef EPOCHS
#define EPOCHS 1 /* the three below, and the epochs in repair.pml */
#endif
#ifndef TALLY
#define TALLY EPOCHS /* only grants of one epoch make a majority */
#endif
#ifndef LATE
#define LATE EPOCHS /* a late grant of another epoch does not confirm the token */
#endif
#ifndef STILL
#define STILL EPOCHS /* a node confirms only a grant of its current epoch */
#endif
#ifndef SILENT
#define SILENT 1 /* a node that lost its data does not vote */
#endif
#ifndef RUN
#define RUN 1 /* every vote compares the server's run id; 0: only if something is found unloaded */
#endif

/* Spin has no loops in expressions, so they are unrolled here. */
#if NODES == 3
#define EACH(what) :: what(0) :: what(1) :: what(2)
#define ALL(what)  what(0); what(1); what(2)
#define SUM(what)  (what(0) + what(1) + what(2))
#elif NODES == 4
#define EACH(what) :: what(0) :: what(1) :: what(2) :: what(3)
#define ALL(what)  what(0); what(1); what(2); what(3)
#define SUM(what)  (what(0) + what(1) + what(2) + what(3))
#else
#define EACH(what) :: what(0) :: what(1) :: what(2) :: what(3) :: what(4)
#define ALL(what)  what(0); what(1); what(2); what(3); what(4)
#define SUM(what)  (what(0) + what(1) + what(2) + what(3) + what(4))
#endif
#if CLAIMS == 2
#define EITHER(what,n) (what(n,0) || what(n,1))
#define BOTH(what,n)   what(n,0); what(n,1)
#define ONE(what,n)    if :: what(n,0) :: what(n,1) fi
#else
#define EITHER(what,n) (what(n,0) || what(n,1) || what(n,2))
#define BOTH(what,n)   what(n,0); what(n,1); what(n,2)
#define ONE(what,n)    if :: what(n,0) :: what(n,1) :: what(n,2) fi
#endif
#define MAX(x,y) ((x) > (y) -> (x) : (y))

/* A node. */
byte count[NODES], epoch[NODES];
bit  votes[NODES];

/* A node that came back and has not noticed it is stale: 1, or 2 once a neighbour
 * has reloaded what would show it. An Enlist detects it. */
#if BACK
byte stale[NODES];
#define fresh(n)  (stale[n] == 0)
#define unsure(n) (RUN -> stale[n] : stale[n] == 1)
#else
#define fresh(n)  true
#define unsure(n) false
#endif
#define grants(n) (votes[n] && !unsure(n))

/* A claim's state at a node: the granted value (0: not granted), its epoch and try,
 * and for a reader the token that it shows. */
#define AT(n,c) ((n) * CLAIMS + (c))
byte granted[NODES * CLAIMS], since[NODES * CLAIMS];
#if ROUNDS > 1
byte trial[NODES * CLAIMS];
#endif
#if READERS > 0
byte shown[NODES * CLAIMS];
#endif

byte asked[CLAIMS], proposal[CLAIMS]; /* the last try that was sent; what it proposed */
byte open = CLAIMS;                   /* claims that have not returned; without any, the run is over */
byte highest;                         /* the highest token that was returned */
bit  returned[32];
byte twice, wipes, others;

#include "repair.pml"

#define shares(c) ((c) < READERS)

/* Symmetry reduction: equivalent nodes are entered in the order of their numbers,
 * the first node to be wiped is node 0, and equivalent claims start in order. */
#define prior(n) (((n) + NODES - 1) % NODES)
#define named(n) (START > 0 || (n) <= (WIPES > 0) || FOUNDERS || count[prior(n)] || epoch[prior(n)] || !votes[prior(n)])
#define turn     (me == 0 || shares(me) != shares(me - 1) || asked[me - 1])

#define bars(n,c) ((c) != me && granted[AT(n,c)] && !(shares(c) && shares(me)))
#define free(n)   (open && grants(n) && named(n) && !EITHER(bars, n))

/* How much of a proposal a node accepts. */
hidden byte wish;
inline cut(c) { if :: wish = proposal[c] :: CUT && proposal[c] > 0 -> wish = 0 fi }

inline drop(n,c) {
  granted[AT(n,c)] = 0; since[AT(n,c)] = 0;
#if ROUNDS > 1
  trial[AT(n,c)] = 0;
#endif
#if READERS > 0
  shown[AT(n,c)] = 0
#endif
}

inline grant(n,c,k) {
#if RISE
  count[n] = MAX(count[n] + 1, wish);
#else
  count[n] = MAX(MAX(count[n], 1), wish);
#endif
  granted[AT(n,c)] = count[n]; since[AT(n,c)] = epoch[n];
#if ROUNDS > 1
  trial[AT(n,c)] = k;
#endif
#if READERS > 0
  shown[AT(n,c)] = (shares(c) -> count[n] : 0)
#endif
}

#if ROUNDS > 1
#define known(n) (granted[AT(n,me)] && trial[AT(n,me)] == try)
#define ours(n)  (granted[AT(n,me)] && (!TRY || trial[AT(n,me)] == try))
#else
#define known(n) (granted[AT(n,me)] > 0)
#define ours(n)  (granted[AT(n,me)] > 0)
#endif

/* The tally: a majority that granted the same value needs no second round. */
#define begun(n)  (got[n] > 0)
#define counts(n) (heard[n] && (!TALLY || in[n] == newest))
#define as0(n)    (counts(0) && counts(n) && got[n] == got[0])
#define as1(n)    (counts(1) && counts(n) && got[n] == got[1])
#define as2(n)    (counts(2) && counts(n) && got[n] == got[2])

inline largest(n) { t = (counts(n) -> MAX(t, got[n]) : t) }
inline untell(n)  { told[n] = 0 }
inline forget(n)  { got[n] = 0; in[n] = 0; heard[n] = 0; told[n] = 0 }
inline retire(n)  { got[n] = (got[n] > 0); in[n] = 0; heard[n] = 0; told[n] = 0; drop(n, me) }

/* A claim that has returned is released at once: holding on would only exclude
 * others. Its calls may still arrive. */
inline finish() {
  printf("claim %d returns %d\n", me, t);
  assert(!returned[t]); /* U */
  assert(t > floor);    /* M */
  returned[t] = 1; highest = MAX(highest, t);
  ALL(retire);
  newest = 0; t = 0; ok = 0; floor = 0; over = 1; open--
}

inline tally() {
  if
  :: SUM(as0) >= MAJORITY -> t = got[0]; finish()
  :: SUM(as1) >= MAJORITY -> t = got[1]; finish()
#if NODES > 3
  :: SUM(as2) >= MAJORITY -> t = got[2]; finish()
#endif
  :: else ->
     ALL(largest);
#if CONFIRM == 0
     finish()
#endif
  fi
}

inline enter(n) {
  atomic { got[n] == 0 && free(n) && turn ->
    cut(me);
    d_step {
      if :: asked[me] < try -> asked[me] = try; floor = highest :: else fi;
      if :: known(n) :: else -> grant(n, me, try) fi;
      got[n] = granted[AT(n,me)]; in[n] = since[AT(n,me)];
      printf("claim %d enters node %d: granted %d in epoch %d\n", me, n, got[n], in[n]);
      if :: over -> retire(n) :: else fi
    }
    if
    :: !over && t == 0 ->
       d_step {
         heard[n] = 1; newest = MAX(newest, in[n]);
         if :: SUM(counts) >= MAJORITY -> tally() :: else fi
       }
    :: STRAY || over || t > 0 -> skip
    fi
  }
}

/* Which nodes a claim asks to confirm, and which do. */
#define asks(n) (heard[n] -> counts(n) : (!LATE || in[n] == newest) && (!LOW || got[n] <= t))
#if CONFIRM == 1
#define stands(n) true
#else
#define stands(n) (grants(n) && ours(n) && (!GRANTED || granted[AT(n,me)] == got[n]) && (!STILL || since[AT(n,me)] == epoch[n]))
#endif
#if READERS > 0
#define alone(n) (!STRICT || !shares(me) || shown[AT(n,me)] == t || t > count[n])
#else
#define alone(n) true
#endif

inline confirm(n) {
  atomic { t > 0 && got[n] && !told[n] && open && asks(n) && stands(n) && alone(n) ->
    d_step {
      printf("claim %d: node %d confirms %d\n", me, n, t);
      told[n] = 1; count[n] = MAX(count[n], t);
#if READERS > 0
      if :: shares(me) -> shown[AT(n,me)] = t :: else fi
#endif
    }
    if :: ok++ :: STRAY > 1 -> skip fi;
    d_step { if :: ok >= MAJORITY -> finish() :: else fi }
  }
}

/* A reader whose token conflicts with another's takes a higher one. */
inline raise_token() {
  atomic { t > 0 && shares(me) && raises < RAISES && open ->
    raises++;
    d_step { ALL(untell); ok = 0 }
    if :: t = t + 1 :: t = t + 2 fi
  }
}

/* A refused claim enters again with the next try, and one without an answer with the
 * same: a node that knows the claim repeats its answer. */
inline ask_again() {
  atomic { !over && asked[me] == try && round < ROUNDS && open ->
    round++;
    d_step { ALL(forget); newest = 0; t = 0; ok = 0 }
    if :: try++ :: skip fi
  }
}

proctype Claim(byte me) {
  byte got[NODES], in[NODES]; /* what each node granted, and in which epoch */
  bit heard[NODES], told[NODES], over;
  byte newest, t, ok, floor, try = 1;
#if READERS > 0
  byte raises;
#endif
#if ROUNDS > 1
  byte round = 1;
#endif
  do
  EACH(enter)
  EACH(confirm)
#if READERS > 0
  :: raise_token()
#endif
#if ROUNDS > 1
  :: ask_again()
#endif
  od
}

inline lapse(n,c) {
  d_step { open && granted[AT(n,c)] -> printf("node %d ends claim %d\n", n, c); drop(n, c) }
}
inline lapses(n) { ONE(lapse, n) }

inline wipe(n) {
  d_step { wipes < WIPES && open && votes[n] && (wipes > 0 || n == 0) ->
    printf("node %d loses its data\n", n);
    BOTH(drop, n);
    count[n] = 0; epoch[n] = 0; votes[n] = !SILENT; wipes++;
    STRANGE(n) }
}

inline restart(n) {
  d_step { wipes < WIPES && open && votes[n] && (wipes > 0 || n == 0) ->
    printf("node %d is restarted\n", n);
    votes[n] = 0; wipes++;
    STRANGE(n) }
}

#if BACK
inline revert(n) {
  d_step { wipes < WIPES && open && votes[n] && (wipes > 0 || n == 0) ->
    printf("node %d is restarted with what it knew at first\n", n);
    BOTH(drop, n);
    count[n] = 0; epoch[n] = 0; stale[n] = 1; wipes++;
    STRANGE(n) }
}

inline notice(n) {
  d_step { stale[n] && open -> printf("node %d notices it\n", n); stale[n] = 0; votes[n] = 0 }
}

inline neighbour(n) {
  d_step { stale[n] == 1 && !RUN && open -> printf("a neighbour uses node %d\n", n); stale[n] = 2 }
}
#endif

inline elsewhere(n) {
  d_step { others < OTHERS && open && grants(n) && named(n) -> others++; count[n]++ }
}

active proctype World() {
  do
#if LAPSE
  EACH(lapses)
#endif
#if WIPES
  EACH(wipe)
#endif
#if KEEP
  EACH(restart)
#endif
#if BACK
  EACH(revert)
  EACH(notice)
#if NEIGHBOUR
  EACH(neighbour)
#endif
#endif
#if OTHERS
  EACH(elsewhere)
#endif
#if LEVEL == 1
  EACH(level)
#endif
  od
}

#if TWICE
inline arrive(n) {
  atomic { twice < TWICE && asked[me] && granted[AT(n,me)] == 0 && free(n) ->
    twice++; cut(me);
    if
    :: d_step { grant(n, me, asked[me]) }
    :: asked[me] > 1 -> d_step { grant(n, me, 1) }
    fi;
    printf("claim %d arrives again at node %d: granted %d in epoch %d\n", me, n, count[n], epoch[n])
  }
}
proctype Wire(byte me) { do EACH(arrive) od }
#endif

init {
  byte i;
  atomic {
    do
    :: i < NODES ->
       votes[i] = !FOUNDERS;
       if :: i > (WIPES > 0) -> count[i] = count[i - 1] :: else fi;
       do :: count[i] < START -> count[i]++ :: break od;
       i++
    :: else -> break
    od;
    i = 0;
    do
    :: i < CLAIMS ->
#if PROPOSE
       if :: proposal[i] = 0 :: proposal[i] = PROPOSE :: proposal[i] = PROPOSE + 1 fi;
#endif
       run Claim(i);
#if TWICE
       run Wire(i);
#endif
       i++
    :: else -> break
    od;
    i = 0;
#if FOUNDERS
    do :: i < FOUNDERS -> run Founder(i); i++ :: else -> break od;
#endif
#if REPAIRERS
    do :: i < HANDS -> run Repairer(i); i++ :: else -> break od;
#endif
    i = 0
  }
}
