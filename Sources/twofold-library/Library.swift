// libtwofold.so: TwofoldEmbedded with all that it needs, and nothing but its C functions to be seen from outside
// (twofold.map). It is a target of its own since its linker settings would hold for the tests of TwofoldEmbedded, too.
internal import TwofoldEmbedded
