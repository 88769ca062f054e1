-- state.lua: the state of the fleet. It writes nothing.
return report()
