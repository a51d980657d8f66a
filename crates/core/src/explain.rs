//! Why a packet goes where it goes.
