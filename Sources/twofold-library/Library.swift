// libtwofold.so: TwofoldEmbedded with everything that it needs. It exports only the C functions
// (twofold.map). It is a separate target because its linker settings would otherwise apply to the tests of
// TwofoldEmbedded, too.
internal import TwofoldEmbedded
